"""Atari pools, hold-outs by replay and from Minari, and the experiment on a stand-in game."""

import dataclasses
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ale_py")
torch = pytest.importorskip("torch")

from rrl.datasets import atari as holdouts  # noqa: E402
from rrl.datasets.atari import holdout, preprocess_raw, record_episodes, replay, rom_digest  # noqa: E402
from rrl.datasets.recordings import read_recording  # noqa: E402
from rrl.experiments.games import atari as experiment  # noqa: E402
from rrl.experiments.games.results import table  # noqa: E402
from rrl.experiments.store import RunStore, unit_key  # noqa: E402
from rrl.packing import pack_array, unpack_array  # noqa: E402
from rrl.pqn import PQNConfig, Step  # noqa: E402
from rrl.pqn.atari import AtariPool, GameTracker, action_names, play  # noqa: E402

RECORDED = Path(__file__).parents[2] / "book/results/atari"

# The pool -----------------------------------------------------------------------------------------


def walk(seeds, steps, n_threads=1):
    """Every observation of random play, whose actions hang on the seed too."""
    env, draws = AtariPool("breakout", len(seeds), n_threads), [np.random.default_rng(s) for s in seeds]
    seen = [env.reset(np.array(seeds))]
    for _ in range(steps):
        seen.append(env.step(np.array([d.integers(4) for d in draws])).observation)
    return np.stack(seen)


def test_a_game_does_not_depend_on_its_pool():
    alone, among = walk([77], 200), walk([5, 77], 200, 2)
    assert np.array_equal(alone[:, 0], among[:, 1]) and not np.array_equal(among[:, 0], among[:, 1])


def test_ends_and_dead_steps():
    """Case 29: a lost life ends the learner's episode; after the last one comes one dead step."""
    env = AtariPool("breakout", 2, 1)
    env.reset(np.array([1, 2]))
    rng, valid, ended, score = np.random.default_rng(0), [], [], []
    for _ in range(330):
        out = env.step(rng.integers(4, size=2))
        valid.append(out.valid), ended.append(out.ended), score.append(out.score)
    valid, ended, over = np.array(valid), np.array(ended), ~np.isnan(score)
    assert over.sum() >= 2 and ended.sum() >= 5 * over.sum()
    assert np.array_equal(~valid[1:], over[:-1]) and (ended[over]).all() and not ended[~valid].any()
    assert env.n_actions == 4 and env.observation_shape == (4, 84, 84)


def test_a_pool_goes_on_from_its_state(monkeypatch):
    """By playing every action again; beyond a limit there is no state."""
    monkeypatch.setattr("rrl.pqn.atari.LONGEST_REPLAY", 2 * 400)
    whole, rest, rng = AtariPool("breakout", 2, 1), AtariPool("breakout", 2, 1), np.random.default_rng(0)
    whole.reset(np.array([3, 4]))
    for _ in range(330):
        seen = whole.step(rng.integers(4, size=2)).observation
    state = whole.state()
    assert state["seeds"].tolist() == [3, 4] and state["actions"].shape == (330, 2)
    np.testing.assert_array_equal(rest.load_state(state), seen)
    for _ in range(70):
        actions = rng.integers(4, size=2)
        for one, other in zip(whole.step(actions), rest.step(actions), strict=True):
            np.testing.assert_array_equal(one, other)
    assert whole.state()["actions"].shape == (400, 2)
    whole.step(actions)
    assert whole.state() is None
    whole.reset(np.array([3, 4]))
    assert whole.state()["actions"].shape == (0, 2)


def test_scores_are_unclipped_and_of_the_whole_game():
    """Case 42: rewards 7, -3, 0 with lives 2, 1, 1; and a game without lives."""
    tracker, no = GameTracker(1), np.array([False])
    for reward, lives, end in ((7, 2, False), (-3, 1, True), (0, 1, False)):
        valid, score = tracker.step(np.array([reward]), np.array([end]), no, np.array([lives]))
        assert valid[0] and np.isnan(score[0])
    assert tracker.step(np.array([0]), np.array([True]), no, np.array([0]))[1][0] == 4
    assert not tracker.step(np.array([9]), no, no, np.array([2]))[0][0]
    assert tracker.step(np.array([1]), no, np.array([True]), np.array([2]))[1][0] == 1


def test_pong_loses_no_life():
    env = AtariPool("pong", 1, 1)
    env.reset(np.array([0]))
    rng = np.random.default_rng(0)
    outs = [env.step(rng.integers(6, size=1)) for _ in range(100)]
    assert not any(out.ended[0] for out in outs) and all(out.valid[0] for out in outs)
    assert sum(out.reward[0] for out in outs) < 0


def test_a_policy_that_never_fires_ends():
    """Case 41: after FIRE at the start a passive paddle loses its lives' first ball and waits for ever."""
    games = play(lambda o, t: np.zeros(2, int), AtariPool("breakout", 2, 1), [0, 1], patience=150)
    assert games.scores.tolist() == [0, 0] and games.truncated.all()
    assert [len(a) for a in games.actions] == [150, 150]
    games = play(lambda o, t: np.zeros(1, int), AtariPool("breakout", 1, 1), [0], max_steps=20)
    assert games.truncated.all() and len(games.actions[0]) == 20


def test_play_scores_whole_games():
    draws = np.random.default_rng(3)
    games = play(lambda o, t: draws.integers(4, size=2), AtariPool("breakout", 2, 1), [3, 4], patience=400)
    assert not games.truncated.any() and (games.scores >= 0).all()
    # Played again, the same games give the same scores.
    again = [np.zeros(max(map(len, games.actions)), np.uint8) for _ in range(2)]
    for row, actions in zip(again, games.actions):
        row[: len(actions)] = actions
    same = play(lambda o, t: np.array([row[t] for row in again]), AtariPool("breakout", 2, 1), [3, 4], patience=400)
    assert np.array_equal(same.scores, games.scores)


def test_action_names(capfd):
    assert action_names("breakout") == ["noop", "fire", "right", "left"]
    assert action_names("mspacman")[:5] == ["noop", "up", "right", "left", "down"]
    assert len(action_names("mspacman")) == AtariPool("mspacman", 1).n_actions == 9
    assert capfd.readouterr().err == ""


def test_unknown_games():
    with pytest.raises(ValueError, match="game must be one of"):
        action_names("chess")
    with pytest.raises(ValueError, match="game must be one of"):
        AtariPool("chess", 1)
    with pytest.raises(ValueError, match="game must be one of"):
        holdout("pong")
    with pytest.raises(ValueError, match="source must be"):
        holdout("breakout", source="web")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "n must be an integer >= 1, got 0"),
        ({"n": -1}, "n must be an integer >= 1, got -1"),
        ({"n": 2.0}, "n must be an integer >= 1, got 2.0"),
        ({"n": True}, "n must be an integer >= 1, got True"),
        ({"n_threads": -1}, "n_threads must be an integer >= 0, got -1"),
        ({"n_threads": None}, "n_threads must be an integer >= 0, got None"),
    ],
)
def test_a_pool_refuses_bad_sizes(options, message):
    """With n=0 ale-py ends the process."""
    with pytest.raises(ValueError, match=message):
        AtariPool("breakout", **{"n": 2, **options})


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("reset", [0], "seeds must be 2 integers"),
        ("reset", [0.5, 1.0], "seeds must be 2 integers"),
        ("reset", [True, False], "seeds must be 2 integers"),
        ("reset", [0, -1], r"seeds must lie in 0\.\.2147483647, got -1 to 0"),
        ("reset", [0, 2**31], r"seeds must lie in 0\.\.2147483647, got 0 to 2147483648"),
        ("step", [1], "actions must be 2 integers"),
        ("step", [0, 1.5], "actions must be 2 integers"),
        ("step", [0, -1], r"actions must lie in 0\.\.3, got -1 to 0"),
        ("step", [0, 4], r"actions must lie in 0\.\.3, got 0 to 4"),
    ],
)
def test_a_pool_refuses_bad_seeds_and_actions_and_plays_on(method, given, message):
    """ale-py waits for ever for an action that there is not, and draws a seed in place of a negative one."""
    pool, other = AtariPool("breakout", 2, 1), AtariPool("breakout", 2, 1)
    with pytest.raises(RuntimeError, match=r"call reset\(\) before step\(\)"):
        pool.step([0, 0])
    assert np.array_equal(pool.reset([7, 8]), other.reset(np.array([7, 8], np.uint8)))
    with pytest.raises(ValueError, match=message):
        getattr(pool, method)(given)
    assert np.array_equal(pool.step([1, 2]).observation, other.step(np.array([1, 2], np.uint8)).observation)


@pytest.mark.parametrize("options", [{"max_steps": 0}, {"max_steps": 2.5}, {"patience": 0}, {"patience": None}])
def test_play_refuses_limits_that_are_none(options):
    ((name, value),) = options.items()
    with pytest.raises(ValueError, match=f"{name} must be an integer >= 1, got {value}"):
        play(lambda o, t: np.zeros(1, int), AtariPool("breakout", 1, 1), [0], **options)


@pytest.mark.parametrize(
    ("package", "call"),
    [
        ("ale_py.vector_env", lambda: AtariPool("breakout", 1)),
        ("ale_py", lambda: rom_digest("breakout")),
        ("ale_py", lambda: action_names("breakout")),
        ("minari", lambda: holdout("breakout", source="minari")),
        ("cv2", lambda: preprocess_raw(np.zeros((1, 210, 160, 3), np.uint8))),
    ],
)
def test_missing_packages_name_the_extra(monkeypatch, package, call):
    """Case 38."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=r"\[experiments\]"):
        call()


# Hold-outs ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recording():
    draws = np.random.default_rng(0)
    return record_episodes("breakout", lambda o, t: draws.integers(4, size=2), [11, 12], max_steps=60, details={"a": 1})


def test_replay_is_bit_for_bit_in_another_process(recording, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(json.dumps(recording))
    assert path.stat().st_size < 2500
    code = (
        "import json, sys; from rrl.datasets.atari import holdout\n"
        "print(holdout('breakout', recording=json.load(open(sys.argv[1])), n_states=50).digest)"
    )
    there = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    states = holdout("breakout", recording=recording, n_states=50)
    assert states.digest == there.stdout.strip() and states.observations.shape == (50, 4, 84, 84)
    assert states.details == {"a": 1, "scores": [0.0, 0.0], "episodes": 2, "steps": 120}
    everything = replay(recording)
    assert [len(actions) for _, actions in everything] == [60, 60]
    every = holdout("breakout", recording=recording, n_states=10_000)
    assert len(every.actions) == 120 and np.array_equal(every.observations[60:], everything[1][0])
    assert np.array_equal(every.actions[:60], everything[0][1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: {**r, "rom_sha256": "0" * 64}, "ROM of breakout is not"),
        (lambda r: {**r, "preprocessing": {**r["preprocessing"], "frameskip": 3}}, "other preprocessing"),
        (lambda r: {**r, "episodes": [{**e, "seed": 99} for e in r["episodes"]]}, "other frames"),
        (
            lambda r: {**r, "episodes": [{**r["episodes"][0], "actions": pack_array(np.array([9]))}]},
            "holds the action 9",
        ),
        (lambda r: {k: v for k, v in r.items() if k != "rom_sha256"}, "it lacks"),
        (lambda r: {**r, "details": []}, "no table"),
        (lambda r: {**r, "game": "chess"}, "its game must be one of"),
        (lambda r: {**r, "episodes": []}, "no episodes"),
        (lambda r: {**r, "episodes": [{**e, "score": 7.0} for e in r["episodes"]]}, "scores 0 .* says 7.0"),
        (lambda r: {**r, "episodes": [{"seed": 1}]}, "episode 0 lacks one of"),
        (lambda r: {**r, "episodes": [{**r["episodes"][0], "seed": -1}]}, "episode 0 has the seed -1"),
        (
            lambda r: {**r, "episodes": [{**r["episodes"][0], "actions": pack_array(np.array([-1]))}]},
            "has actions int64",
        ),
    ],
)
def test_a_recording_that_does_not_replay_is_refused(recording, change, message):
    with pytest.raises(ValueError, match=message):
        replay(change(recording))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"recording": {}}, "it holds no episodes"),
        ({"recording": []}, "it holds no episodes"),
        ({"recording": {"episodes": [1], "details": {}}}, "it lacks"),
        ({"game": "mspacman"}, "recording is one of breakout, asked for are mspacman"),
        ({"source": "minari"}, "recording is one of breakout, asked for are breakout and source='minari'"),
        ({"game": ["breakout"]}, r"game must be one of .*, got \['breakout'\]"),
        ({"source": ["minari"]}, "source must be"),
        ({"n_states": 0}, "n_states must be an integer >= 1, got 0"),
        ({"n_states": 1.5}, "n_states must be an integer >= 1, got 1.5"),
        ({"n_states": True}, "n_states must be an integer >= 1, got True"),
    ],
)
def test_a_holdout_checks_what_it_is_given_first(recording, options, message):
    with pytest.raises(ValueError, match=message):
        holdout(**{"game": "breakout", "recording": recording, **options})


def test_a_given_recording_is_not_called_the_packages(recording):
    assert holdout("breakout", recording=recording, n_states=5).source == "recorded:given"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": [0.7]}, "seeds must be 1 integers"),
        ({"seeds": [-1]}, "seeds must lie in"),
        ({"seeds": []}, "seeds must be 0 integers|n must be an integer >= 1, got 0"),
        ({"details": [1]}, r"details must be a dict, got \[1\]"),
        ({"details": {"x": np.int64(3)}}, "details must be plain JSON"),
        ({"max_steps": 0}, "max_steps must be an integer >= 1"),
        ({"game": "chess"}, "game must be one of"),
    ],
)
def test_a_recording_checks_what_it_is_given_before_it_plays(options, message):
    def policy(observations, t):
        raise AssertionError("played")

    with pytest.raises(ValueError, match=message):
        record_episodes(**{"game": "breakout", "policy": policy, "seeds": [1], **options})


@pytest.mark.parametrize("game", ["breakout", "mspacman"])
def test_the_recorded_holdout_is_the_one_of_the_records(game):
    """Breakout's was recorded on another machine and Python; both replay here to the frames the records name."""
    states = holdout(game, source="recorded")
    # The long players' games lie beside the records.
    long = [read_recording(path, **holdouts.RECORDED) for path in RECORDED.glob(f"holdout_{game}_*.recording")]
    known = {states.digest, *(holdout(game, recording=recording).digest for recording in long)}
    records = RunStore(RECORDED).records("atari-holdout")
    assert {r["unit"]["holdout"] for r in records if r["unit"]["game"] == game} == known
    assert states.observations.shape == (1500, 4, 84, 84) and states.details["seed"] == experiment.EXPERT_SEED


def test_the_reduced_scale_is_what_is_recorded():
    units = experiment.units("reduced")
    assert RunStore(RECORDED).status(units)["done"] == len(units) == 20


def make_minari(folder, identifier, monkeypatch):
    """A small local Minari set of raw frames, and the frames."""
    import gymnasium
    import minari

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    rng = np.random.default_rng(0)
    buffers, raw = [], []
    for seed in range(2):
        frames = rng.integers(0, 256, (6 + seed, 210, 160, 3)).astype(np.uint8)
        n = len(frames) - 1
        actions = rng.integers(4, size=n)
        ends = np.arange(n) == n - 1
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                id=seed,
                observations=list(frames),
                actions=list(actions),
                rewards=[0.0] * n,
                terminations=list(ends),
                truncations=[False] * n,
            )
        )
        raw.append((frames, actions))
    spaces = gymnasium.spaces
    minari.create_dataset_from_buffers(
        identifier,
        buffers,
        observation_space=spaces.Box(0, 255, (210, 160, 3), np.uint8),
        action_space=spaces.Discrete(4),
        data_format="hdf5",
        jpeg_encoding=False,
    )
    return raw


def test_a_recording_becomes_a_minari_set(tmp_path, monkeypatch):
    """Bit for bit, with the scores; a damaged recording and an existing set change nothing on disk."""
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    random = np.random.default_rng(0)
    recording = record_episodes("breakout", lambda seen, t: random.integers(4, size=len(seen)), [1, 2], max_steps=200)
    assert [episode["truncated"] for episode in recording["episodes"]] == [False, True]
    damaged = json.loads(json.dumps(recording))
    damaged["episodes"][1]["frames_sha256"] = "0" * 64
    with pytest.raises(ValueError, match="other frames"):
        holdouts.write_minari(damaged)
    with pytest.raises(ValueError, match="it lacks"):
        holdouts.write_minari({"episodes": []})
    with pytest.raises(ValueError, match=r"recording must be .* 'chess'"):
        holdouts.write_minari("chess")
    assert not list(tmp_path.iterdir())

    def full(part, *_, **__):
        (tmp_path / part / "data").mkdir(parents=True)
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(minari, "create_dataset_from_buffers", full)
        with pytest.raises(OSError, match="disk is full"):
            holdouts.write_minari(recording)
    assert not [path for path in tmp_path.rglob("*") if "part" in path.name]
    written = holdouts.write_minari(recording)
    read = minari.load_dataset("rrl/breakout/recorded-v0", download=False)
    assert read.spec.dataset_id == written.spec.dataset_id == "rrl/breakout/recorded-v0"
    for episode, (seen, actions), kept in zip(read, replay(recording), recording["episodes"], strict=True):
        assert np.array_equal(episode.observations[:-1], seen) and np.array_equal(episode.actions, actions)
        assert hashlib.sha256(episode.observations[:-1].tobytes()).hexdigest() == kept["frames_sha256"]
        assert episode.rewards.sum() == kept["score"]
        ends = {False: episode.terminations.tolist(), True: episode.truncations.tolist()}
        assert ends[kept["truncated"]] == [False] * (len(actions) - 1) + [True] and not any(ends[not kept["truncated"]])
        # A frame is the next stack's last but one: the last observation follows on.
        assert np.array_equal(episode.observations[-1][:3], episode.observations[-2][1:])
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(holdouts, "_own_recording", lambda game: recording)
    with pytest.raises(FileExistsError, match="rrl/breakout/recorded-v0"):
        holdouts.write_minari("breakout")
    assert sorted(tmp_path.rglob("*")) == before and not list(tmp_path.rglob("part*"))


@pytest.mark.filterwarnings("ignore")
def test_minari_sets(tmp_path, monkeypatch):
    """Case 37, and the conversion of raw frames."""
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError):
        holdout("breakout", source="minari")
    monkeypatch.setattr(holdouts, "DATA", tmp_path)
    with pytest.raises(FileNotFoundError, match="no hold-out of breakout"):
        holdout("breakout")
    raw = make_minari(tmp_path, "atari/breakout/expert-v0", monkeypatch)
    states = holdout("breakout", n_states=100)
    assert states.source == "minari:atari/breakout/expert-v0" and states.details == {"episodes": 2, "steps": 11}
    assert np.array_equal(states.actions, np.concatenate([actions for _, actions in raw]))
    want = np.concatenate([preprocess_raw(frames)[:-1] for frames, _ in raw])
    assert np.array_equal(states.observations, want)
    data = tmp_path / "atari/mspacman/expert-v0/data"
    data.mkdir(parents=True)
    with pytest.raises(ValueError, match=r"atari/mspacman/expert-v0 in .* is empty, damaged"):
        holdout("mspacman")
    (data / "metadata.json").write_text('{"minari_version": "~=0.3"}')
    with pytest.raises(ValueError, match="minari than 0"):
        holdout("mspacman")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("observations", lambda seen: seen[1:], "episode 1 has 6 observations for 6 actions"),
        ("observations", lambda seen: seen[:3], "episode 1 has 3 observations for 6 actions"),
        ("observations", lambda seen: np.concatenate([seen, seen]), "episode 1 has 14 observations for 6 actions"),
        ("observations", lambda seen: seen.astype(float), "frames must be uint8"),
        ("actions", lambda actions: actions / 2, "episode 1 has actions float64"),
        ("actions", lambda actions: -1 - actions, "episode 1 has actions int64"),
    ],
)
def test_minari_episodes_whose_states_and_actions_do_not_fit(name, change, message, tmp_path, monkeypatch):
    """As many observations as actions would pair each state with the action before or after it."""
    pytest.importorskip("minari")
    h5py = pytest.importorskip("h5py")
    make_minari(tmp_path, "atari/breakout/expert-v0", monkeypatch)
    with h5py.File(tmp_path / "atari/breakout/expert-v0/data/main_data.hdf5", "a") as file:
        changed = change(file[f"episode_1/{name}"][()])
        del file[f"episode_1/{name}"]
        file[f"episode_1/{name}"] = changed
    with pytest.raises(ValueError, match=f"the Minari set atari/breakout/expert-v0 in .*{message}"):
        holdout("breakout")


def test_raw_frames_become_what_the_pool_shows():
    """Grey, size and stacking against ale-py's own, on frames of the game without the maximum of two."""
    import ale_py
    from ale_py.vector_env import AtariVectorEnv

    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", 0)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(ale_py.roms.get_rom_path("breakout"))
    pool = AtariVectorEnv(
        "breakout",
        1,
        maxpool=False,
        noop_max=0,
        use_fire_reset=False,
        repeat_action_probability=0.0,
    )
    seen, raw = [pool.reset(seed=np.array([0]))[0][0]], [ale.getScreenRGB()]
    actions = ale.getMinimalActionSet()
    for a in np.random.default_rng(0).integers(4, size=30):
        seen.append(pool.step(np.array([a]))[0][0])
        for _ in range(4):
            ale.act(actions[a])
        raw.append(ale.getScreenRGB())
    mine = preprocess_raw(np.stack(raw)).astype(int)
    # The emulator takes its greys from a palette, OpenCV weights colours: a few grey levels apart.
    difference = np.abs(mine - np.stack(seen))
    assert difference.max() <= 8 and difference.mean() < 1
    with pytest.raises(ValueError, match="frames must be uint8"):
        preprocess_raw(np.zeros((2, 210, 160, 3)))


# The experiment -----------------------------------------------------------------------------------


def test_defaults_are_table_1():
    """Every row of the paper's Table 1 is the default of the code."""
    default = dataclasses.asdict(PQNConfig())
    rows = dict(experiment.TABLE_1.values())
    assert rows.pop("optimizer") == "AdamW"
    assert rows == {key: default[key] for key in rows} and len(experiment.TABLE_1) == 14
    breakout, pacman = experiment.config("breakout", "both"), experiment.config("mspacman", "both")
    assert (breakout.exploration_fraction, breakout.weight_decay, breakout.grid_step) == (0.3, 0.2, 0.4)
    assert (pacman.exploration_fraction, pacman.weight_decay, pacman.grid_step) == (0.25, 0.1, 0.4)
    plain = experiment.config("breakout", "plain")
    assert (plain.weight_decay, plain.grid_step) == (0, 0) and plain == PQNConfig()


def test_plans():
    paper, reduced = experiment.units("paper"), experiment.units("reduced")
    assert len(paper) == 15 * 4 * 2 and len({unit_key(u) for u in paper}) == 120
    assert {u["settings"]["total_steps"] for u in paper} == {10_000_000}
    assert {u["game"] for u in reduced} == set(experiment.GAMES)
    # The reduced scale changes nothing but the steps.
    for unit in reduced:
        same = {**unit, "settings": {**unit["settings"], "total_steps": 10_000_000}}
        assert same in paper
    for bad, named in (({"scale": "tiny"}, "scale .* 'tiny'"), ({"games": ["breakout", "chess"]}, "games .* 'chess'")):
        with pytest.raises(ValueError, match=named):
            experiment.units(**bad)
    with pytest.raises(ValueError, match="variant must be"):
        experiment.config("breakout", "best")


class Tiny:
    """A stand-in for a pool: 36 x 36 noise, reward for action 1, games of 40 steps."""

    n_actions, observation_shape = 3, (4, 36, 36)

    def __init__(self, game, n, n_threads=0):
        self.n = n

    def reset(self, seeds):
        self.rng, self.age = np.random.default_rng([int(s) for s in seeds]), np.zeros(self.n, int)
        self.tracker = GameTracker(self.n)
        return self._pixels()

    def _wanted(self):
        return 1

    def _pixels(self):
        return self.rng.integers(0, 256, (self.n, *self.observation_shape), dtype=np.uint8)

    def step(self, actions):
        self.age = np.where(self.tracker.over, 0, self.age + 1)
        end, no = self.age == 40, np.zeros(self.n, bool)
        reward = np.where(actions == self._wanted(), 2, 0)
        valid, score = self.tracker.step(reward, end, no, np.zeros(self.n, int))
        return Step(self._pixels(), reward, end, no, valid, score)

    def state(self):
        return None


def test_the_whole_experiment(tmp_path, monkeypatch, capsys):
    """Train, evaluate, record the hold-out with the expert, take Q-values, and do nothing twice."""
    for module in (experiment, holdouts):
        monkeypatch.setattr(module, "AtariPool", Tiny)
    monkeypatch.setattr(experiment, "VARIANTS", {key: experiment.VARIANTS[key] for key in ("plain", "both")})
    monkeypatch.setattr(holdouts, "DATA", tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    options = {"folder": tmp_path / "runs", "games": ["breakout"], "total_steps": 1024, "n_seeds": 2, "device": "cpu"}
    records = experiment.main("reduced", log_every=1, **options)
    assert json.loads(capsys.readouterr().out.splitlines()[0])["step"] == 1024
    kinds = [(r["unit"]["experiment"], r["unit"]["seed"]) for r in records]
    assert kinds.count(("atari", 1000)) == 1 and len(kinds) == 4 + 1 + 4
    first = records[0]["result"]
    assert first["complete"] and first["steps"] == 1024 and first["restarts"] == 0
    steps, scores = (unpack_array(first["games"][key]) for key in ("step", "score"))
    assert len(steps) == len(scores) >= 24 and first["final_mean"] == pytest.approx(scores[-20:].mean())
    assert len(first["evaluation"]["scores"]) == 8 and first["evaluation"]["lengths"] == [40] * 8
    assert first["network_sha256"] and len(first["curve"]["loss"]) == 1
    q = unpack_array(records[-1]["result"]["q"])
    actions = unpack_array(records[-1]["result"]["actions"])
    assert q.shape == (len(actions), 3) and q.dtype == np.float32
    assert not list((tmp_path / "runs/networks").glob("checkpoint*"))
    monkeypatch.setattr(experiment, "train_units", lambda *_, **__: pytest.fail("trained twice"))
    assert experiment.main("reduced", **options) == [r for r in records if r["unit"]["seed"] != 1000]
    rows = table(records)
    assert [row["variant"] for row in rows] == list(experiment.VARIANTS)
    assert rows[0]["seeds"] == [0, 1] and rows[0]["complete"] and rows[0]["steps"] == (1024, 1024)
    finals = [r["result"]["final_mean"] for r in records if r["unit"]["variant"] == "plain" and "run" not in r["unit"]]
    assert rows[0]["final"] == pytest.approx(np.mean(finals[:2]))
    # Without its network a run cannot be asked about other states.
    for path in (tmp_path / "runs/networks").iterdir():
        path.unlink()
    other = holdouts.Holdout(np.zeros((2, 4, 36, 36), np.uint8), np.zeros(2, int), "x", "other")
    unit = records[0]["unit"]
    with pytest.raises(FileNotFoundError, match="train that run again"):
        experiment.q_values(
            experiment.holdout_unit(unit, other), trained={unit_key(unit): unit}, states=other, folder=tmp_path / "runs"
        )


def test_a_run_that_the_budget_cut_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(experiment, "AtariPool", Tiny)
    units = experiment.units("reduced", n_seeds=1, total_steps=4096)[:2]
    results = list(experiment.train_units(units, folder=tmp_path, deadline=0.0))
    assert [r["complete"] for r in results] == [False, False] and results[0]["final_mean"] is None
    with pytest.raises(ValueError, match="of one game"):
        mixed = [units[0], {**units[1], "game": "mspacman"}]
        next(experiment.train_units(mixed, folder=tmp_path))


def test_packed_actions_are_small():
    assert len(pack_array(np.zeros(4000, np.uint8))["zlib"]) < 100
