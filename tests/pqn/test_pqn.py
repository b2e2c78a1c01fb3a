"""PQN: network, targets and training, against known answers and a plain single-network loop."""

import dataclasses
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from rrl.pqn import (  # noqa: E402
    Architecture,
    PQNConfig,
    StackedQNetwork,
    Step,
    Trainer,
    greedy_actions,
    linear_schedule,
    q_lambda_targets,
    quantise,
    td_target,
    train,
)
from rrl.pqn.config import run_generators  # noqa: E402

SIZE = 6
NET = Architecture(convs=((4, 3, 1),), dense=(16,), scale=255.0)
CONFIG = PQNConfig(total_steps=13 * 64, n_envs=4, n_steps=16, n_minibatches=2, epochs=2)


class Catch:
    """Catch a falling ball: a small vectorised pixel game with ends, time limits and dead steps.

    A caught ball gives 7, a missed one -3 and ends the game; the game is cut after 23 steps. The step
    after a finished game only resets it, as in Gymnasium's next-step mode.
    """

    n_actions, observation_shape, limit = 3, (1, SIZE, SIZE), 23

    def __init__(self, n, exact=True):
        self.n, self.exact = n, exact

    def reset(self, seeds):
        self.seeds, self.drawn = np.array(seeds, dtype=np.int64), np.zeros(self.n, dtype=np.int64)
        self.row, self.age = np.zeros(self.n, dtype=int), np.zeros(self.n, dtype=int)
        self.total, self.over = np.zeros(self.n), np.zeros(self.n, dtype=bool)
        self.ball, self.paddle = self._columns(), np.full(self.n, 2)
        return self._pixels()

    def _columns(self):
        """The next random column of each game: a hash of its seed and its count of draws."""
        self.drawn += 1
        return (self.seeds * 2654435761 + self.drawn * 40503) % 1000003 % SIZE

    def _pixels(self):
        image, rows = np.zeros((self.n, *self.observation_shape), np.uint8), np.arange(self.n)
        image[rows, 0, self.row, self.ball] = 255
        image[rows, 0, SIZE - 1, self.paddle] = 128
        return image

    def step(self, actions):
        valid, columns = ~self.over, self._columns()
        self.paddle = np.where(valid, np.clip(self.paddle + actions - 1, 0, SIZE - 1), 2)
        self.row, self.age = np.where(valid, self.row + 1, 0), np.where(valid, self.age + 1, 0)
        self.total = np.where(valid, self.total, 0.0)
        landed = self.row == SIZE - 1
        caught = landed & (self.ball == self.paddle)
        reward = np.where(caught, 7, np.where(landed, -3, 0))
        self.total += reward
        ended = landed & ~caught
        cut = valid & ~ended & (self.age >= self.limit)
        self.over = ended | cut
        self.ball = np.where(caught & ~cut | ~valid, columns, self.ball)
        self.row = np.where(caught & ~cut, 0, self.row)
        score = np.where(self.over, self.total, np.nan)
        return Step(self._pixels(), reward, ended, cut, valid, score)

    FIELDS = ("seeds", "drawn", "row", "age", "total", "over", "ball", "paddle")

    def state(self):
        return {name: getattr(self, name) for name in self.FIELDS} if self.exact else None

    def load_state(self, state):
        for name in self.FIELDS:
            setattr(self, name, state[name].copy())


def trainer(runs, **options):
    return Trainer(runs, Catch, architecture=NET, **options)


def reference(seed, c, shared_noise=None):
    """A plain loop with one torch module, written after the algorithm, for the same generators."""
    g = run_generators(seed)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3),
        torch.nn.LayerNorm([4, 4, 4]),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 16),
        torch.nn.LayerNorm(16),
        torch.nn.ReLU(),
        torch.nn.Linear(16, 3),
    )
    start = StackedQNetwork(1, Catch.observation_shape, 3, NET).initial([g["init"]])[0]
    torch.nn.utils.vector_to_parameters(start, net.parameters())
    optimizer = torch.optim.AdamW(net.parameters(), lr=c.learning_rate, weight_decay=c.weight_decay)
    env = Catch(c.n_envs)
    observation = env.reset(g["env"].integers(2**31 - 1, size=c.n_envs))
    step_count, returns, iterations = 0, [], c.total_steps // (c.n_envs * c.n_steps)

    def rounded(q, yes=True):
        if not (c.grid_step and yes):
            return q
        return torch.floor(q / c.grid_step + 0.5) * c.grid_step

    def tensor(x):
        return torch.tensor(np.asarray(x), dtype=torch.float32)

    for iteration in range(iterations):
        for group in optimizer.param_groups:
            group["lr"] = c.learning_rate * (1 - iteration / iterations)
        chance, random = g["explore"].random((c.n_steps, c.n_envs)), None
        random = g["explore"].integers(3, size=(c.n_steps, c.n_envs))
        rows = []
        for t in range(c.n_steps):
            step_count += c.n_envs
            epsilon = linear_schedule(1.0, 0.01, c.exploration_fraction * c.total_steps, step_count)
            with torch.no_grad():
                q = net(tensor(observation) / 255)
            greedy = rounded(q, c.round_acting).argmax(1).numpy()
            action = np.where(chance[t] < epsilon, random[t], greedy)
            out = env.step(action)
            returns += [(step_count, s) for s in out.score if not np.isnan(s)]
            rows.append((observation, action, rounded(q, c.round_targets).max(1).values, out))
            observation = out.observation
        with torch.no_grad():
            last = rounded(net(tensor(observation) / 255), c.round_targets).max(1).values
        targets = [None] * c.n_steps
        for t in reversed(range(c.n_steps)):
            out = rows[t][3]
            value = rows[t + 1][2] if t + 1 < c.n_steps else last
            for e in range(c.n_envs):
                reward = float(np.sign(out.reward[e]))
                if out.ended[e]:
                    target = reward
                elif out.cut[e] or t == c.n_steps - 1:
                    target = reward + c.gamma * float(value[e])
                else:
                    later = c.q_lambda * targets[t + 1][e] + (1 - c.q_lambda) * float(value[e])
                    target = reward + c.gamma * later
                targets[t] = [*(targets[t] or []), target]
        x = np.concatenate([row[0] for row in rows])
        a = torch.tensor(np.concatenate([row[1] for row in rows]))
        y, w = tensor(np.concatenate(targets)), tensor(np.concatenate([row[3].valid for row in rows]))
        for _ in range(c.epochs):
            order = g["shuffle"].permutation(len(x))
            for index in np.split(order, c.n_minibatches):
                q = net(tensor(x[index]) / 255)
                if c.round_loss == "straight-through":
                    q = q + (rounded(q) - q).detach()
                chosen = q.gather(1, a[index][:, None]).squeeze(1)
                keep = w[index] > 0
                loss = torch.nn.functional.mse_loss(y[index][keep], chosen[keep])
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(net.parameters(), c.max_grad_norm)
                optimizer.step()
    return torch.nn.utils.parameters_to_vector(net.parameters()).detach(), returns


VARIANTS = [
    CONFIG,
    dataclasses.replace(CONFIG, grid_step=0.4),
    dataclasses.replace(CONFIG, weight_decay=0.2),
    dataclasses.replace(CONFIG, grid_step=0.1, weight_decay=0.2, round_loss="straight-through"),
    dataclasses.replace(CONFIG, grid_step=0.4, round_targets=False),
]


@pytest.fixture(scope="module")
def together():
    t = trainer([(seed, c) for seed in (3, 4) for c in VARIANTS])
    assert train(t)
    return t


@pytest.mark.parametrize("k", range(len(VARIANTS)))
def test_agrees_with_a_plain_loop(together, k):
    theta, returns = reference(3, VARIANTS[k])
    assert together.updates == 52
    assert returns == together.games[k] and len(returns) > 5
    np.testing.assert_allclose(together.theta[k].numpy(), theta.numpy(), atol=1e-5, rtol=0)
    start = together.network.initial([run_generators(3)["init"]])[0]
    assert (together.theta[k] - start).abs().max() > 1e-3


@pytest.mark.parametrize("conv", ["loop", "patches", "grouped"])
def test_a_run_does_not_depend_on_its_batch(together, conv):
    alone = trainer([(4, VARIANTS[1])], conv=conv)
    train(alone)
    k = len(VARIANTS) + 1
    np.testing.assert_allclose(alone.theta[0], together.theta[k], atol=1e-5, rtol=0)
    assert alone.games[0] == together.games[k]


def test_seeds_and_variants_differ(together):
    rows = together.theta.numpy()
    for i in range(len(rows)):
        for j in range(i):
            assert np.abs(rows[i] - rows[j]).max() > 1e-3
    streams = [g.integers(2**62, size=4).tolist() for seed in (0, 1) for g in run_generators(seed).values()]
    assert len({tuple(s) for s in streams}) == len(streams)


def test_it_learns():
    c = dataclasses.replace(CONFIG, total_steps=64 * 250, learning_rate=2e-3)
    t = trainer([(0, c), (0, dataclasses.replace(c, grid_step=0.05))])
    train(t)
    for games in t.games:
        early, late = ([s for _, s in part] for part in (games[:50], games[-50:]))
        assert np.mean(late) > np.mean(early) + 5


def test_plain_rounding_in_the_loss_has_no_gradient():
    c = dataclasses.replace(CONFIG, total_steps=64, grid_step=0.4)
    t = trainer([(0, dataclasses.replace(c, round_loss=loss)) for loss in ("plain", "straight-through", "no")])
    start = t.theta.clone()
    t.iterate()
    moved = (t.theta - start).abs().amax(1)
    assert moved[0] == 0 and moved[1] > 1e-5 and moved[2] > 1e-5


def test_weights_of_dead_steps_are_zero():
    """Case 29: the fake step after a game changes nothing; a run that sees another one is the same."""

    class Noisy(Catch):
        def step(self, actions):
            out = super().step(actions)
            return out._replace(reward=np.where(out.valid, out.reward, 1000))

    runs = [(5, dataclasses.replace(CONFIG, total_steps=128, q_lambda=0.0))]
    clean, noisy = trainer(runs), Trainer(runs, Noisy, architecture=NET)
    train(clean), train(noisy)
    assert torch.equal(clean.theta, noisy.theta)
    actions, (_, ended, cut, valid), _, _ = trainer(runs)._act()
    over = (ended + cut)[:-1] > 0
    assert over.any() and torch.equal(valid[1:] == 0, over) and (valid[0] == 1).all()
    assert actions.shape == (16, 1, 4)


def test_rewards_are_clipped_for_the_learner_only():
    """Case 42."""
    t = trainer([(0, CONFIG)])
    seen = torch.cat([t._act()[1][0].flatten() for _ in range(4)])
    assert set(seen.tolist()) == {-1.0, 0.0, 1.0}
    assert {score % 1 for _, score in t.games[0]} == {0.0} and min(s for _, s in t.games[0]) == -3
    unclipped = trainer([(0, dataclasses.replace(CONFIG, clip_rewards=False))])
    assert 7.0 in unclipped._act()[1][0] or -3.0 in unclipped._act()[1][0]


def test_ties_in_training():
    """Shared ties are the same for all runs of one seed, independent ones come from the run."""
    c = dataclasses.replace(CONFIG, grid_step=1e6, end_e=0.0, start_e=0.0)
    t = trainer([(0, dataclasses.replace(c, tie_break=rule)) for rule in ("first", "shared", "independent")] * 2)
    # With a huge step everything rounds to zero: the greedy action is the tie-break alone.
    actions = t._act()[0]
    assert (actions[:, 0] == 0).all() and set(actions[:, 1].unique().tolist()) == {0, 1, 2}
    assert torch.equal(actions[:, :3], actions[:, 3:])
    other = trainer([(1, dataclasses.replace(c, tie_break=rule)) for rule in ("shared", "independent")])
    assert torch.equal(other._act()[0][:, 0], actions[:, 1])
    assert not torch.equal(trainer(list(zip([1], other.configs[1:])))._act()[0][:, 0], actions[:, 2])
    t.iterate()
    assert t.curve[-1]["ties"] == [1.0] * 6


@pytest.mark.parametrize("exact", [True, False])
def test_resume(tmp_path, exact):
    """Case 28: stopped and resumed in another object is bit for bit the run that never stopped."""
    runs = [(1, CONFIG), (2, dataclasses.replace(CONFIG, grid_step=0.1, tie_break="independent"))]
    whole = Trainer(runs, lambda n: Catch(n, exact), architecture=NET)
    train(whole)
    half = Trainer(runs, lambda n: Catch(n, exact), architecture=NET)
    for _ in range(6):
        half.iterate()
    path = tmp_path / "c.safetensors"
    half.save(path)
    rest = Trainer(runs, lambda n: Catch(n, exact), architecture=NET)
    assert train(rest, checkpoint=path)
    same = torch.equal(whole.theta, rest.theta) and whole.games == rest.games and whole.curve == rest.curve
    assert same == exact and rest.restarts == (0 if exact else 1) and rest.iteration == whole.iteration
    assert [p.name for p in tmp_path.iterdir()] == ["c.safetensors"]
    with pytest.raises(ValueError, match=r"c\.safetensors has other runs; without that file, training begins anew$"):
        trainer([(9, CONFIG)]).load(path)


def test_a_checkpoint_of_something_else_changes_nothing(tmp_path):
    """Another network, shared order of ties or environment: refused by name, with what was learnt here still there."""
    path, runs = tmp_path / "c.safetensors", [(1, dataclasses.replace(CONFIG, grid_step=0.1, tie_break="shared"))]
    begun = trainer(runs)
    begun.iterate()
    begun.save(path)

    class More(Catch):
        n_actions = 4

    class Elsewhere(Catch):
        def load_state(self, state):
            super().load_state(state)
            return 255 - self._pixels()

    class Here(Catch):
        def load_state(self, state):
            super().load_state(state)
            return self._pixels()

    others = {
        "other architecture": Trainer(runs, Catch, architecture=dataclasses.replace(NET, dense=(8,))),
        "other shared_seed: 0, here 7": trainer(runs, shared_seed=7),
        "other n_actions: 3, here 4": Trainer(runs, More, architecture=NET),
        "played again here, show something else": Trainer(runs, Elsewhere, architecture=NET),
    }
    for words, other in others.items():
        before = other.theta.clone()
        with pytest.raises(ValueError, match=words):
            other.load(path)
        assert torch.equal(other.theta, before) and other.iteration == 0
    same = Trainer(runs, Here, architecture=NET)
    same.load(path)
    assert same.iteration == 1 and torch.equal(same.theta, begun.theta) and same.exact


def test_a_checkpoint_that_cannot_be_written_is_an_error_before_the_work(tmp_path):
    begun = trainer([(1, CONFIG)])
    with pytest.raises(FileNotFoundError, match=r"cannot write the checkpoint .*nowhere.*No such file"):
        train(begun, checkpoint=tmp_path / "nowhere" / "c.safetensors")
    assert begun.iteration == 0


def test_a_checkpoint_that_cannot_be_read_is_no_missing_one(tmp_path):
    """It stays; a link to itself stands for a file without rights, which root would read."""
    path = tmp_path / "c.safetensors"
    path.symlink_to(path)
    with pytest.raises(OSError, match=r"[Ss]ymbolic link"):
        train(trainer([(1, CONFIG)]), checkpoint=path)
    assert path.is_symlink()


def test_a_disk_that_fills_up_ends_no_training(tmp_path, capsys):
    """What can no longer be written is said; the last whole checkpoint stays."""
    resource, path = pytest.importorskip("resource"), tmp_path / "c.safetensors"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(t):
        if t.iteration == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))

    disturbed = trainer([(1, CONFIG)])
    try:
        assert train(disturbed, checkpoint=path, every=0.0, after=fill)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "cannot write the checkpoint" in capsys.readouterr().err
    whole, kept = trainer([(1, CONFIG)]), trainer([(1, CONFIG)])
    train(whole)
    assert torch.equal(whole.theta, disturbed.theta)
    kept.load(path)
    assert kept.iteration == 1 and [p.name for p in tmp_path.iterdir()] == ["c.safetensors"]


def test_resume_after_kill(tmp_path):
    """The same in a process that is killed between checkpoints."""
    code = (
        "import sys; sys.path.insert(0, 'tests/pqn'); from test_pqn import *\n"
        "import os, signal\n"
        # Another number of threads sums in another order.
        f"torch.set_num_threads({torch.get_num_threads()})\n"
        "t = trainer([(1, CONFIG)])\n"
        "def after(t):\n"
        "    if t.iteration == 9: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    time.sleep(0.002)\n"
        "train(t, checkpoint=sys.argv[1], every=0.0, after=after)\n"
    )
    path = tmp_path / "c.safetensors"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == -9, done.stderr
    rest, whole = trainer([(1, CONFIG)]), trainer([(1, CONFIG)])
    assert train(rest, checkpoint=path, progress=True) and train(whole)
    assert torch.equal(whole.theta, rest.theta) and whole.games == rest.games


@pytest.mark.parametrize(("length", "saves"), [(50.0, 7), (10.0, 2), (130.0, 13)])
def test_checkpoints_foresee_the_next_iteration(length, saves, tmp_path, monkeypatch):
    """13 iterations by a clock of our own: two minutes between checkpoints at most, or one longer iteration."""
    clock, saved, t = [1000.0], [1000.0], trainer([(0, CONFIG)])
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])

    def iterate():
        t.iteration += 1
        clock[0] += length

    t.iterate, t.save = iterate, lambda path: saved.append(clock[0])
    assert train(t, checkpoint=tmp_path / "c.safetensors") and t.iteration == 13
    assert max(np.diff(saved)) <= max(120, length) and len(set(saved)) == saves + 1 and saved[-1] == clock[0]


def test_a_rollout_step_by_step():
    """Actions, values and ties of a rollout, from the network's own call and a loop."""
    greedy = dataclasses.replace(CONFIG, start_e=0.0, end_e=0.0)
    rounded = dataclasses.replace(greedy, grid_step=0.3, round_targets=False)
    both = dataclasses.replace(greedy, grid_step=0.5)
    t, seen = trainer([(0, greedy), (1, rounded), (2, both)]), []
    values = t._actor.values
    t._actor.values = lambda p, x: seen.append(values(t._actor.parameters(t.theta), x)) or values(p, x)
    for _ in range(2):
        seen.clear()
        actions, _, found, ties = t._act()
        expected = np.zeros(3)
        for k, (q_all, acted) in enumerate(zip(seen, [*actions, None])):
            for run, (step_acting, step_target) in enumerate([(0, 0), (0.3, 0), (0.5, 0.5)]):
                for env, q in enumerate(q_all[run]):
                    best = quantise(q, step_target).max()
                    torch.testing.assert_close(found[k, run, env], best, atol=1e-6, rtol=0)
                    if acted is not None:
                        chosen = quantise(q, step_acting)
                        assert acted[run, env] == chosen.argmax()
                        expected[run] += int((chosen == chosen.max()).sum() > 1) / (len(actions) * greedy.n_envs)
        np.testing.assert_allclose(ties, expected, atol=1e-6)
        assert expected[0] == 0 and 0 < expected[2] < 1
        t.theta += 0.05 * torch.randn(t.theta.shape, generator=torch.Generator().manual_seed(0))


def test_an_interrupted_update_leaves_no_gradient_behind():
    """Ctrl-C within an update in a notebook: the next iteration learns as if nothing had been."""
    clean, stopped = trainer([(0, CONFIG)]), trainer([(0, CONFIG)])
    stopped.theta.requires_grad_()
    for t in (clean, stopped):
        t.iterate()
    assert torch.equal(clean.theta, stopped.theta)


def test_deadline():
    t = trainer([(0, CONFIG)])
    assert not train(t, deadline=time.monotonic() - 1) and t.iteration == 0


def test_divergence_is_reported():
    t = trainer([(0, CONFIG)])
    t.theta.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="step 64"):
        t.iterate()


# Targets ------------------------------------------------------------------------------------------


def test_q_lambda_known_answers():
    """Case 46, in both array kinds."""
    for make in (np.array, torch.tensor):
        r, v, no, end = (make(x) for x in ([1.0, 2, 3], [10.0, 20, 30], [0.0, 0, 0], [0.0, 1, 0]))
        assert [float(x) for x in q_lambda_targets(r, v, no, no, 1.0, 0.5)] == [20.25, 28.5, 33.0]
        assert [float(x) for x in q_lambda_targets(r, v, end, no, 1.0, 0.5)] == [7.0, 2.0, 33.0]
        # A time limit after the second step keeps its value and ends the trace: 1 + (22 + 10) / 2.
        assert [float(x) for x in q_lambda_targets(r, v, no, end, 1.0, 0.5)] == [17.0, 22.0, 33.0]
        # CleanRL's loop lets the trace through: 2 + 33 / 2, then 1 + (18.5 + 10) / 2.
        assert [float(x) for x in q_lambda_targets(r, v, end, no, 1.0, 0.5, True)] == [15.25, 18.5, 33.0]


def test_td_target_known_answers():
    """Case 30."""
    assert [td_target(1, 10, end, cut, 0.9) for end, cut in ((0, 0), (1, 0), (0, 1), (1, 1))] == [10, 1, 10, 1]


@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize("kind", [float, int, bool])
@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), -float("inf"), 1e300])
def test_what_stands_behind_an_end_does_not_count(make, kind, garbage):
    """Case 30: nobody reads it, so it may be anything; the targets are those with any other number there."""
    r, v = make([1.0, 2.0, 3.0]), make([10.0, garbage, 30.0])
    end, no = make([kind(0), kind(1), kind(0)]), make([kind(0)] * 3)
    assert [float(x) for x in q_lambda_targets(r, v, end, no, 1.0, 0.5)] == [7.0, 2.0, 33.0]
    assert [float(x) for x in q_lambda_targets(r, v, end, no, 1.0, 0.5, True)] == [15.25, 18.5, 33.0]
    assert td_target(r, v, end, no, 0.5).tolist() == [6.0, 2.0, 18.0]
    if not np.isfinite(garbage):
        for call in (lambda: td_target(r, v, no, end, 0.5), lambda: q_lambda_targets(r, v, no, end, 1.0, 0.5)):
            with pytest.raises(
                ValueError, match=r"next_values?, where no episode ended, holds -?(nan|inf) at index \(1,"
            ):
                call()


def test_one_number_is_a_target_too_and_the_dtype_stays():
    assert td_target(3, float("nan"), True, False, 0.99) == 3.0
    r, no = np.ones(2, np.float32), np.zeros(2, bool)
    assert td_target(r, r, no, no, 0.5).dtype == np.float32
    assert {target.dtype for target in q_lambda_targets(r, r, no, no, 0.9, 0.5)} == {np.dtype(np.float32)}
    half = torch.ones(2, dtype=torch.bfloat16)
    assert td_target(half, half, no, no, 0.5).dtype == torch.bfloat16
    # A target with its gradient.
    v = torch.ones(2, requires_grad=True)
    td_target(torch.ones(2), v, torch.tensor([0, 1]), no, 0.5).sum().backward()
    assert v.grad.tolist() == [0.5, 0.0]


@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, [1.0, float("nan")], r"rewards? holds nan at index \(1,"),
        (2, [0.0, 0.5], r"terminated must be booleans or 0 and 1, got 0.5 at index \(1,"),
        (2, [0.0, float("nan")], "terminated must be booleans or 0 and 1, got nan"),
        (3, [2.0, 0.0], "truncated must be booleans or 0 and 1, got 2.0"),
        (1, [[1.0], [2.0]], r"one shape, or be numbers; got rewards? \(2,\), next_values? \(2, 1\)"),
        (2, [[0], [1]], "one shape"),
        (0, [1e308, 1e308], "overflows float64"),
    ],
)
def test_bad_columns_are_refused_by_name(make, place, value, message):
    columns = [np.array(column) for column in ([1.0, 2.0], [1e308, 1e308], [0.0, 0.0], [0.0, 0.0])]
    columns[place] = np.array(value)
    columns = [torch.from_numpy(column) for column in columns] if make is torch.tensor else columns
    for call in (lambda: td_target(*columns, 1.0), lambda: q_lambda_targets(*columns, 1.0, 0.5)):
        with pytest.raises(ValueError, match=message):
            call()


def test_ends_of_text_and_discounts_above_one_are_refused():
    with pytest.raises(ValueError, match="terminated must be booleans or 0 and 1, got dtype <U5"):
        td_target(np.ones(2), np.ones(2), np.array(["False", "True"]), np.zeros(2), 0.9)
    with pytest.raises(ValueError, match=r"gamma must lie in \[0, 1\], got 1.5"):
        td_target(1, 1, 0, 0, 1.5)
    with pytest.raises(ValueError, match=r"q_lambda must lie in \[0, 1\], got nan"):
        q_lambda_targets(np.ones(2), np.ones(2), np.zeros(2), np.zeros(2), 0.9, float("nan"))
    with pytest.raises(ValueError, match="terminated must have one entry a step"):
        q_lambda_targets(np.ones(2), np.ones(2), 0, np.zeros(2), 0.9, 0.5)


@given(st.floats(0, 1), st.floats(0, 1), st.just(0) | st.floats(0.01, 100), st.integers(0, 200) | st.floats(0, 1))
def test_the_schedule_is_a_line_that_stops_at_its_end_whether_it_falls_or_rises(start, end, duration, step):
    expected = np.interp(step, [0, duration], [start, end]) if duration else end
    assert linear_schedule(start, end, duration, step) == pytest.approx(expected, abs=1e-15)


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_q_lambda_limits(data):
    """Lambda 0 is the one-step target; lambda 1 the discounted sum up to the first end."""
    n = data.draw(st.integers(1, 6))
    numbers = st.lists(st.floats(-5, 5), min_size=n, max_size=n)
    r, v = (np.array(data.draw(numbers)) for _ in "rv")
    kinds = data.draw(st.lists(st.sampled_from("-TC"), min_size=n, max_size=n))
    ended, cut = (np.array([float(k == x) for k in kinds]) for x in "TC")
    one = q_lambda_targets(r, v, ended, cut, 0.9, 0.0)
    np.testing.assert_allclose(one, td_target(r, v, ended, cut, 0.9))
    full = q_lambda_targets(r, v, ended, cut, 0.9, 1.0)
    for start in range(n):
        total, discount = 0.0, 1.0
        for t in range(start, n):
            total, discount = total + discount * r[t], discount * 0.9
            if kinds[t] != "-" or t == n - 1:
                total += discount * v[t] * (kinds[t] != "T")
                break
        assert full[start] == pytest.approx(total, abs=1e-9)


# Network ------------------------------------------------------------------------------------------


def test_atari_network_is_the_nature_network():
    """Parameter count of CleanRL's network, by hand, for Breakout's four actions."""
    by_hand = (4 * 32 * 64 + 32 + 2 * 32 * 400) + (32 * 64 * 16 + 64 + 2 * 64 * 81)
    by_hand += (64 * 64 * 9 + 64 + 2 * 64 * 49) + (3136 * 512 + 512 + 2 * 512) + (512 * 4 + 4)
    network = StackedQNetwork(1, (4, 84, 84), 4)
    assert network.n_parameters == by_hand
    theta = network.initial([np.random.default_rng(0)])
    p = network.parameters(theta)
    for name, shape in network.shapes.items():
        value = p[name][0].flatten(1).numpy() if name.endswith("weight") else p[name][0].numpy()
        assert p[name].shape[1:] == shape
        if name.endswith("weight"):
            small = value @ value.T if value.shape[0] <= value.shape[1] else value.T @ value
            np.testing.assert_allclose(small, 2 * np.eye(len(small)), atol=1e-5)
        else:
            assert (value == (1.0 if name.endswith("scale") else 0.0)).all()


@pytest.mark.parametrize("conv", ["loop", "patches", "grouped"])
def test_runs_do_not_touch_each_other(conv):
    network = StackedQNetwork(3, (2, 7, 7), 4, Architecture(convs=((3, 3, 2), (5, 2, 1)), dense=(8,)), conv)
    theta = network.initial([np.random.default_rng(s) for s in range(3)]).requires_grad_()
    x = np.random.default_rng(1).integers(0, 256, (3, 6, 2, 7, 7)).astype(np.uint8)
    q = network(theta, x)
    (gradient,) = torch.autograd.grad(q[1].sum(), theta)
    assert (gradient[[0, 2]] == 0).all() and (gradient[1] != 0).any()
    plain = StackedQNetwork(1, (2, 7, 7), 4, network.architecture)
    for k in range(3):
        torch.testing.assert_close(plain(theta[k : k + 1], x[k : k + 1])[0], q[k], atol=1e-5, rtol=0)


@pytest.mark.parametrize("threads", [1, 2])
def test_greedy_actions_one_by_one_and_in_a_batch(threads):
    """Case 26: rounded outputs and actions are the same, away from the edges of the grid."""
    network = StackedQNetwork(1, (1, SIZE, SIZE), 3, NET)
    theta = network.initial([np.random.default_rng(0)])
    x = np.random.default_rng(1).integers(0, 256, (1, 200, 1, SIZE, SIZE)).astype(np.uint8)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        batch = network(theta, x)[0]
        single = torch.cat([network(theta, x[:, i : i + 1])[0] for i in range(200)])
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(batch, single, atol=1e-5, rtol=0)
    inside = ((batch / 0.4 + 0.5) % 1 - 0.5).abs().amin(-1) < 0.499
    assert inside.float().mean() > 0.95
    assert torch.equal(quantise(batch, 0.4)[inside], quantise(single, 0.4)[inside])
    assert torch.equal(greedy_actions(quantise(batch, 0.4))[inside], greedy_actions(quantise(single, 0.4))[inside])


@given(st.floats(-1e3, 1e3), st.floats(0.01, 10))
def test_quantise(x, step):
    q = quantise(np.array([x]), step)
    code = q[0] / step
    assert abs(q[0] - x) <= step / 2 * (1 + 1e-9) + 1e-12
    assert code == pytest.approx(round(code), abs=1e-6)
    assert not np.signbit(q[0]) or q[0] < 0
    assert quantise(np.array([x]), 0.0)[0] == x
    assert float(quantise(torch.tensor([x], dtype=torch.float64), step)[0]) == q[0]


def test_quantise_halves_all_go_up():
    """Cases 16 and 17."""
    q = quantise(np.array([-1.5, -0.5, 0.5, 1.5, 2.5, -0.2, -0.0]), 1.0)
    assert q.tolist() == [-1, 0, 1, 2, 3, 0, 0] and not np.signbit(q[[1, 5, 6]]).any()


def test_ties():
    """Case 48."""
    rows = np.array([[0.3, 0.1 + 0.2], [0.1 + 0.2, 0.3]])
    assert greedy_actions(rows).tolist() == [1, 0]
    assert greedy_actions(quantise(rows, 0.05 + 1e-3)).tolist() == [0, 0]
    assert all(greedy_actions(np.zeros(3)) == 0 for _ in range(100))
    q = torch.tensor([[1.0, 2.0, 2.0], [3.0, 0.0, 3.0]])
    assert greedy_actions(q, torch.tensor([0.5, 0.1, 0.2])).tolist() == [2, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_envs": 0}, "n_envs must be an integer >= 1, got 0"),
        ({"n_envs": 1.0}, "n_envs must be an integer >= 1, got 1.0"),
        ({"epochs": True}, "epochs must be an integer >= 1, got True"),
        ({"n_minibatches": 7}, "n_minibatches must divide"),
        ({"total_steps": 10}, "total_steps must cover"),
        ({"grid_step": -0.1}, "grid_step must be a finite number >= 0, got -0.1"),
        ({"weight_decay": float("nan")}, "weight_decay must be a finite number >= 0, got nan"),
        ({"learning_rate": float("nan")}, "learning_rate must be a finite number >= 0, got nan"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"gamma": 5}, r"gamma must lie in \[0, 1\], got 5"),
        ({"q_lambda": -0.1}, "q_lambda"),
        ({"start_e": 1.5}, "start_e"),
        ({"exploration_fraction": 2.0}, "exploration_fraction"),
        ({"max_grad_norm": 0.0}, "max_grad_norm must be positive"),
        ({"adam_betas": (0.9, 1.0)}, "adam_betas must be two numbers"),
        ({"adam_betas": 0.9}, "adam_betas must be two numbers"),
        ({"anneal_lr": "no"}, "anneal_lr must be True or False, got 'no'"),
        ({"round_loss": "yes"}, "round_loss must be 'no', 'straight-through' or 'plain', got 'yes'"),
        ({"tie_break": "random"}, "tie_break must be"),
        ({"tie_break": ["first"]}, "tie_break must be"),
    ],
)
def test_bad_settings(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CONFIG, **change)


def test_one_value_is_rounded_as_an_array_is():
    assert quantise(0.3, 0.4) == quantise(np.array([0.3]), 0.4)[0] == 0.4 and isinstance(quantise(0.3, 0.4), float)
    assert quantise([1, 3], 2).tolist() == [2.0, 4.0] and quantise(np.float32(0.3), 0.4).dtype == np.float32
    for q, step, message in (
        (0.3, -0.1, "step must be finite and >= 0"),
        (0.3, np.inf, "step must be finite and >= 0"),
        ("a", 0.1, "q must hold real numbers"),
        (1e308, 1e-10, "step is too fine or too large for q"),
        ([1.0, 2.0], [0.1, 0.1, 0.1], r"step has shape \(3,\), which does not broadcast to \(2,\) of q"),
    ):
        with pytest.raises(ValueError, match=message):
            quantise(q, step)


@pytest.mark.parametrize("seed", [None, 0.5, -1, True])
def test_a_run_needs_a_seed(seed):
    with pytest.raises(ValueError, match="seed must be a non-negative integer"):
        trainer([(0, CONFIG), (seed, CONFIG)])


def test_bad_runs_and_networks():
    with pytest.raises(ValueError, match="may differ only in"):
        trainer([(0, CONFIG), (0, dataclasses.replace(CONFIG, gamma=0.9))])
    with pytest.raises(ValueError, match="too small for convolution 0"):
        StackedQNetwork(1, (1, 4, 4), 3)
    with pytest.raises(ValueError, match="conv must be"):
        StackedQNetwork(1, (1, 84, 84), 3, conv="fft")


def test_without_torch(monkeypatch):
    """Case 38."""
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"-rl\[experiments\]"):
        StackedQNetwork(1, (1, 84, 84), 3).initial([np.random.default_rng(0)])
    assert quantise(np.array([0.3]), 0.4)[0] == 0.4
