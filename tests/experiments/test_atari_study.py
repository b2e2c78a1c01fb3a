"""Both Atari games as a study in blocks: the plan, the whole of it on a stand-in game, and networks that are not it."""

import hashlib
import json

import numpy as np
import pytest

pytest.importorskip("ale_py")
torch = pytest.importorskip("torch")

from safetensors.torch import load_file, save_file  # noqa: E402
from test_atari import Tiny  # noqa: E402

from rrl.datasets import atari as holdouts  # noqa: E402
from rrl.datasets.recordings import write_recording  # noqa: E402
from rrl.experiments import provenance as origins  # noqa: E402
from rrl.experiments.games import atari as experiment  # noqa: E402
from rrl.experiments.games import runs, study  # noqa: E402
from rrl.experiments.games.results import curves, q_values, table  # noqa: E402
from rrl.experiments.store import RunStore, unit_key  # noqa: E402
from rrl.packing import unpack_array  # noqa: E402
from rrl.pqn import PQNConfig, StackedQNetwork, mixed  # noqa: E402
from rrl.pqn.atari import AtariPool, play  # noqa: E402

VARIANTS = list(experiment.VARIANTS)


def short(unit):
    return unit["game"], unit["variant"], unit["seed"]


def test_the_plan_is_blocks_of_equal_length():
    figure = experiment.units("book")
    runs = [unit for unit in figure if unit["seed"] != experiment.EXPERT_SEED]
    assert len(figure) == len({unit_key(u) for u in figure}) == 42 and len(runs) == 2 * 4 * 5
    assert {u["settings"]["total_steps"] for u in runs} == {500_000}
    assert {u["settings"]["precision"] for u in figure} == {"bfloat16"}
    # Any four runs from the first on are one seed of one game; every game has it before the next seed begins.
    blocks = [[short(u) for u in runs[i : i + 4]] for i in range(0, 40, 4)]
    games = ["mspacman", "breakout"]
    assert blocks == [[(game, v, seed) for v in VARIANTS] for seed in range(5) for game in games]
    # A player stands right before its game's first block, and takes as many steps.
    players = [(k, u) for k, u in enumerate(figure) if u not in runs]
    assert [(k, short(u)) for k, u in players] == [(5 * k, (game, "plain", 1000)) for k, game in enumerate(games)]
    assert {u["settings"]["total_steps"] for _, u in players} == {4 * 500_000}


def test_precision_repeats_runs_with_all_else_equal():
    figure, repeated = experiment.units("book"), experiment.units("book", "precision")
    assert [short(u) for u in repeated] == [("mspacman", v, seed) for seed in range(5) for v in ("plain", "both")]
    for unit in repeated:
        (partner,) = [u for u in figure if short(u) == short(unit)]
        assert partner == {**unit, "settings": {**unit["settings"], "precision": "bfloat16"}}
    assert experiment.units("book", "all") == figure + repeated
    assert len(experiment.units("book", "all", games=["breakout"], n_seeds=1)) == 1 + 4
    assert len(experiment.units("book", "all", games=["mspacman"], n_seeds=1)) == 1 + 4 + 2
    with pytest.raises(ValueError, match="study must be 'figure', 'precision' or 'all', got 'choices'"):
        experiment.units("book", "choices")
    with pytest.raises(ValueError, match="study 'precision' is for scale 'book', got scale 'reduced'"):
        experiment.units("reduced", "precision")


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"n_seeds": 0}, "n_seeds must be an integer >= 1, got 0"),
        ({"n_seeds": 1.5}, "n_seeds must be an integer >= 1, got 1.5"),
        ({"total_steps": 0}, "total_steps must be an integer >= 1, got 0"),
        ({"games": "breakout"}, r"games must be a list of names, got 'breakout': write \['breakout'\]"),
        ({"games": []}, "games must name each game once, got "),
        ({"games": ["breakout", "breakout"]}, "games must name each game once, got "),
        ({"games": ["pong"]}, "games must be one of .*, got 'pong'"),
    ],
)
def test_bad_plans_are_refused_before_work(plan, words):
    for scale in ("reduced", "book"):
        with pytest.raises(ValueError, match=words):
            experiment.units(scale, **plan)
    with pytest.raises(ValueError, match=words):
        study.units(**{"games": ["breakout"], **plan})
    with pytest.raises(ValueError, match=r"study must be .* got 'nonsense'"):
        study.units("nonsense", games=["breakout"])


@pytest.mark.parametrize("option", [{"budget": 1.0}, {"n_threads": 3}, {"conv": "patches"}, {"batch": 4}])
def test_options_that_long_runs_do_not_have_are_refused(option, tmp_path):
    (name,) = option
    with pytest.raises(ValueError, match=f"{name} is for the others, got"):
        experiment.main("book", folder=tmp_path / "none", **option)
    assert not (tmp_path / "none").exists()


class Shown(Tiny):
    """The stand-in, with the last action in the corner of what is seen, and rewards that no run can learn."""

    def _wanted(self):
        return self.age % 3

    def step(self, actions):
        out = super().step(actions)
        out.observation[:, 0, 0, 0] = actions
        return out


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The whole study on the stand-in, one seed of 1,024 steps, and what it looks up."""
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        for module in (experiment, holdouts):
            patch.setattr(module, "AtariPool", Shown)
        patch.setattr(holdouts, "DATA", folder)
        patch.setattr(mixed, "has_bfloat16", lambda: True)
        random = np.random.default_rng(0)
        recording = holdouts.record_episodes("breakout", lambda seen, t: random.integers(3, size=8), range(8))
        write_recording(folder / "atari_breakout.json", recording)
        study._recorded.cache_clear()
        replayed, own_states = [], study.own_states
        patch.setattr(study, "own_states", lambda block: replayed.append(block) or own_states(block))
        options = {"folder": folder / "st", "games": ["breakout"], "total_steps": 1024, "n_seeds": 2, "device": "cpu"}
        records = experiment.main("book", study="figure", **options)
        assert len(replayed) == 2  # a seed's games once, not once a run that answers on them
        yield folder / "st", options, records
        study._recorded.cache_clear()


def of(records, kind):
    return [r for r in records if r["unit"]["experiment"] == kind]


def test_every_network_answers_on_every_set(played):
    _, _, records = played
    trained = of(records, "atari")
    assert {short(r["unit"])[1:] for r in trained} == {("plain", 1000)} | {(v, s) for v in VARIANTS for s in (0, 1)}
    for record in trained:
        result, settings = record["result"], record["unit"]["settings"]
        assert result["complete"] and result["steps"] == settings["total_steps"] and result["trained_together"] == 1
        assert result["precision"] == "bfloat16" and result["environment"]["repeat_action_probability"] == 0
        assert result["environment"]["frameskip"] == 4 and record["provenance"]["versions"]["rrl"]
        assert result["processor_seconds"] > 0
    answers, own = of(records, "atari-holdout"), of(records, "atari-own")
    player = f"recorded:holdout_breakout_{4 * 1024}.recording"
    assert {r["result"]["source"] for r in answers} == {"recorded:atari_breakout.json", player}
    assert len(answers) == 8 * 2 and len({r["unit"]["holdout"] for r in answers}) == 2
    asked = [(r["unit"]["variant"], r["unit"]["seed"], r["unit"]["block"]) for r in own]
    assert sorted(asked) == sorted((v, seed, block) for v in VARIANTS for seed in (0, 1) for block in (0, 1))
    # Tables see the hold-outs alone; every set is a key of its own.
    assert len(table(records)) == 4 * 2 and {len(row["seeds"]) for row in table(records)} == {2}
    stacks = q_values(records, "own")
    assert len(stacks) == 2 and all(list(s) == VARIANTS for s in stacks.values())
    assert {q.shape for s in stacks.values() for q in s.values()} == {(2, 4 * study.OWN_STATES, 3)}


def test_nothing_is_done_twice(played, monkeypatch):
    _, options, records = played
    for name in ("train_units", "q_values", "make_holdout"):
        monkeypatch.setattr(experiment, name, lambda *_, **__: pytest.fail("done twice"))
    monkeypatch.setattr(study, "own_states", lambda *_: pytest.fail("replayed for nothing"))
    assert experiment.main("book", study="figure", **options) == records


def test_own_states_are_those_of_the_recorded_games(played):
    """Replayed by hand: the states of a run's own games, and the actions it took there, up to chance."""
    _, _, records = played
    block = [r for v in VARIANTS for r in of(records, "atari") if short(r["unit"])[1:] == (v, 0)]
    states = study.own_states(block)
    assert len(states.actions) == 400 and states.details["runs"] == [unit_key(r["unit"]) for r in block]
    for k, record in enumerate(block):
        games = record["result"]["evaluation"]
        assert len(games["seeds"]) == len(set(games["seeds"])) == len(games["actions"]) == 8 and games["noise"] == 0.01
        actions = [unpack_array(a) for a in games["actions"]]
        assert [len(a) for a in actions] == games["lengths"] == [40] * 8
        pool, seen = Shown("breakout", 8), []
        observation = pool.reset(np.array(games["seeds"]))
        for step in np.array(actions).T:
            seen.append(observation)
            observation = pool.step(step).observation
        seen = np.swapaxes(np.array(seen), 0, 1).reshape(-1, *Tiny.observation_shape)  # game after game
        chosen = np.linspace(0, 8 * 40 - 1, study.OWN_STATES).round().astype(int)
        part = slice(100 * k, 100 * (k + 1))
        np.testing.assert_array_equal(states.observations[part], seen[chosen])
        np.testing.assert_array_equal(states.actions[part], np.concatenate(actions)[chosen])
        # The run itself, asked there, does what it did, but for one action in a hundred.
        (answer,) = [
            r
            for r in of(records, "atari-own")
            if r["unit"]["run"] == unit_key(record["unit"]) and r["unit"]["block"] == 0
        ]
        assert answer["unit"]["holdout"] == states.digest
        own = unpack_array(answer["result"]["actions"])[part]
        assert (own == states.actions[part]).mean() >= 0.9
        assert games["scores"] == [2 * (a == np.arange(1, 41) % 3).sum() for a in actions]
    forged = json.loads(json.dumps(block[:1]))
    forged[0]["result"]["evaluation"]["scores"][3] += 2
    with pytest.raises(ValueError, match="replay to other scores"):
        study.own_states(forged)


def test_float32_repetitions_are_asked_beside_their_partners(played, monkeypatch):
    _, options, records = played
    monkeypatch.setitem(study.PRECISION, "games", ("breakout",))
    more = experiment.main("book", study="precision", **options)
    repeated = [r for r in of(more, "atari") if "precision" not in r["unit"]["settings"]]
    assert {short(r["unit"])[1:] for r in repeated} == {(v, s) for v in ("plain", "both") for s in (0, 1)}
    assert {r["result"]["precision"] for r in repeated} == {"float32"}
    labels = [*VARIANTS, "plain, float32", "both, float32"]
    for stacks in (q_values(more), q_values(more, "own")):
        assert len(stacks) == 2 and all(sorted(s) == sorted(labels) for s in stacks.values())
        for stack in stacks.values():
            assert all(len(q) == 2 for q in stack.values())
            # Another precision of the same run: near, and not the same.
            assert 0 < np.abs(stack["plain"] - stack["plain, float32"]).max() < 1
    assert [row["variant"] for row in table(more)[:6]] == labels
    assert {c["variant"] for c in curves(more)} == set(labels)
    # What was there before stands.
    assert all(record in more for record in records)


def test_what_waits_for_a_network_is_left_out(played, tmp_path, monkeypatch):
    """Without networks nothing new is asked, and the records stand; with them the new states are."""
    folder, _, records = played
    for record in of(records, "atari"):
        RunStore(tmp_path).write(record["unit"], record["result"], record["provenance"])
    known = [record["unit"] for record in of(records, "atari")]
    study.ask(known, tmp_path)
    assert len(RunStore(tmp_path).records()) == len(known)
    (tmp_path / "networks").mkdir()
    unit = next(unit for unit in known if unit["seed"] == 1)
    runs.network_path(tmp_path, unit).write_bytes(runs.network_path(folder, unit).read_bytes())
    study.ask(known, tmp_path)
    found = RunStore(tmp_path).records()
    assert len(found) == len(known) + 1 + 2  # the package's hold-out, the own games of both seeds
    assert all(record["result"] in [r["result"] for r in records] for record in found)


def test_a_damaged_network_keeps_no_other_from_answering(played, tmp_path):
    folder, _, records = played
    known = [r["unit"] for r in of(records, "atari") if r["unit"]["seed"] in (0, 1)]
    (tmp_path / "networks").mkdir()
    for record in of(records, "atari"):
        if record["unit"] in known:
            RunStore(tmp_path).write(record["unit"], record["result"], record["provenance"])
            path = runs.network_path(folder, record["unit"])
            runs.network_path(tmp_path, record["unit"]).write_bytes(path.read_bytes())
    damaged = runs.network_path(tmp_path, known[0])
    damaged.write_bytes(damaged.read_bytes()[:100])
    with pytest.raises(ValueError, match=f"{damaged.name} is damaged or no network"):
        study.ask(known, tmp_path)
    answered = [r["unit"]["run"] for r in RunStore(tmp_path).records() if r["unit"]["experiment"] != "atari"]
    # The package's hold-out, and the own games of both seeds.
    assert sorted(answered) == sorted(3 * [unit_key(unit) for unit in known[1:]])


# Networks -----------------------------------------------------------------------------------------


@pytest.fixture
def one(played, tmp_path):
    """A copy of one run's record and network, the unit, and states to ask it on."""
    folder, _, records = played
    record = next(r for r in of(records, "atari") if r["unit"]["seed"] == 0)
    unit = record["unit"]
    RunStore(tmp_path).write(unit, record["result"], record["provenance"])
    path = runs.network_path(tmp_path, unit)
    path.parent.mkdir()
    path.write_bytes(runs.network_path(folder, unit).read_bytes())
    seen = np.random.default_rng(0).integers(0, 256, (32, 4, 36, 36)).astype(np.uint8)
    return tmp_path, path, unit, holdouts.Holdout(seen, np.zeros(32, int), "x", "other")


def ask(folder, unit, states):
    question = runs.holdout_unit(unit, states)
    return experiment.q_values(question, trained={unit_key(unit): unit}, states=states, folder=folder)


def test_a_network_is_the_one_of_its_record(one):
    folder, path, unit, states = one
    theta = load_file(path)["theta"]
    assert (
        hashlib.sha256(theta.numpy().tobytes()).hexdigest() == RunStore(folder).load(unit)["result"]["network_sha256"]
    )
    with torch.no_grad():
        network = StackedQNetwork(1, (4, 36, 36), 3, precision="bfloat16")
        want = network(theta[None], states.observations[None])[0]
    np.testing.assert_allclose(unpack_array(ask(folder, unit, states)["q"]), want, atol=1e-6)


def test_a_second_writer_leaves_the_network_of_the_record(one):
    folder, path, unit, states = one
    theta = load_file(path)["theta"]
    runs._save_network(folder, unit, theta + 1)
    assert torch.equal(load_file(path)["theta"], theta)
    ask(folder, unit, states)


@pytest.mark.parametrize("change", ["one bit", "another run's", "NaN", "short", "no record"])
def test_another_network_is_refused(one, played, change):
    folder, path, unit, states = one
    theta = load_file(path)["theta"]
    if change == "one bit":
        theta.view(torch.int32)[1000] ^= 1
    elif change == "another run's":
        other = next(r["unit"] for r in of(played[2], "atari") if r["unit"]["seed"] == 1)
        theta = load_file(runs.network_path(played[0], other))["theta"]
    elif change == "NaN":
        theta[-1] = float("nan")
    elif change == "short":
        theta = theta[:-1].clone()
    else:
        RunStore(folder).path(unit).unlink()
    save_file({"theta": theta}, path)
    with pytest.raises(ValueError, match="not the network whose SHA-256"):
        ask(folder, unit, states)


@pytest.mark.parametrize("data", [b"", b"\x80\x04pickle", bytes(1000)])
def test_a_damaged_network_is_named(one, data):
    folder, path, unit, states = one
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"{path.name} is damaged or no network"):
        ask(folder, unit, states)
    save_file({"weights": torch.zeros(3)}, path)
    with pytest.raises(ValueError, match=f"{path.name} is damaged or no network"):
        ask(folder, unit, states)


def test_q_values_that_are_not_finite_are_refused(one, monkeypatch):
    """From a network that diverged: its digest is right."""
    folder, path, unit, states = one
    theta = load_file(path)["theta"]
    theta[-1] = float("inf")
    record = RunStore(folder).load(unit)
    RunStore(folder).path(unit).unlink()
    result = record["result"] | {"network_sha256": hashlib.sha256(theta.numpy().tobytes()).hexdigest()}
    RunStore(folder).write(unit, result, record["provenance"])
    save_file({"theta": theta}, path)
    with pytest.raises(ValueError, match="Q-values that are not finite"):
        ask(folder, unit, states)


# Greedy games, provenance -------------------------------------------------------------------------


class Rewards(AtariPool):
    """A pool that keeps what every step gave."""

    def step(self, actions):
        out = super().step(actions)
        self.given = [*getattr(self, "given", []), out.reward]
        return out


def test_greedy_games_differ():
    """Sixteen starts of one policy: without noise few games, as starts matter modulo the frame skip."""
    network = StackedQNetwork(1, (4, 84, 84), 9)
    theta = network.initial([np.random.default_rng(0)])
    seeds, found = np.random.default_rng(5).integers(2**31 - 1, size=16), []
    for noise in (None, (experiment.NOISE, [np.random.default_rng([2, 26])])):
        pool = Rewards("mspacman", 16, 1)
        play(runs.greedy_policy(network, theta, [PQNConfig()], noise), pool, seeds, max_steps=400)
        # When rewards came, from the first one on.
        times = [np.flatnonzero(row) for row in np.array(pool.given).T]
        found.append(len({(t - t[0]).tobytes() for t in times}))
    assert found[0] <= 4 < 8 <= found[1]


def test_noise_does_not_depend_on_the_batch():
    network = StackedQNetwork(2, (4, 36, 36), 3)
    theta, seen = network.initial([np.random.default_rng(s) for s in (0, 1)]), np.zeros((16, 4, 36, 36), np.uint8)
    both = runs.greedy_policy(network, theta, [PQNConfig()] * 2, (0.5, [np.random.default_rng(3) for _ in range(2)]))
    alone = StackedQNetwork(1, (4, 36, 36), 3)
    one = runs.greedy_policy(alone, theta[1:], [PQNConfig()], (0.5, [np.random.default_rng(3)]))
    taken = [(both(seen, t)[8:], one(seen[8:], t)) for t in range(20)]
    assert all(np.array_equal(a, b) for a, b in taken) and len({a.tobytes() for a, _ in taken}) > 10


@pytest.mark.parametrize(("status", "difference"), [(b" M a.py\n", b"diff \xff\n"), (b"", None), (None, None)])
def test_provenance_has_the_digest_of_what_is_not_committed(status, difference, monkeypatch):
    """Of the bytes that git writes, whatever their encoding."""
    answers = {"status": status, "rev-parse": b"0" * 40 + b"\n", "diff": b"diff \xff\n"}
    monkeypatch.setattr(origins, "_git", lambda command, *_: answers[command])
    origins.loaded_code.cache_clear()
    try:
        origin = origins.provenance()
    finally:
        origins.loaded_code.cache_clear()
    assert origin["commit"] == "0" * 40 and origin["dirty"] == (None if status is None else bool(status))
    assert origin["diff_sha256"] == (difference and hashlib.sha256(difference).hexdigest())
