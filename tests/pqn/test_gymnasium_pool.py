"""Any Gymnasium environment in PQN: what is acted on is what is learnt from, and what cannot be taken is refused."""

import dataclasses
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
gymnasium = pytest.importorskip("gymnasium")

from test_pqn import CONFIG, NET, Catch  # noqa: E402

from rrl.pqn import Architecture, GymnasiumPool, PQNConfig, StackedQNetwork, Trainer, train  # noqa: E402

MLP = Architecture(convs=(), dense=(16,), scale=1.0)
RUNS = [(3, CONFIG), (4, dataclasses.replace(CONFIG, grid_step=0.4))]


class Shaped(Catch):
    """Catch, with its pixels in another type and shape."""

    def __init__(self, n, kind, shape, scale):
        super().__init__(n)
        self.kind, self.scale, self.observation_shape = kind, scale, shape

    def _pixels(self):
        image, rows = np.zeros((self.n, 6, 6)), np.arange(self.n)
        image[rows, self.row, self.ball] = 255
        image[rows, 5, self.paddle] = 128
        return (image / self.scale).astype(self.kind).reshape(self.n, *self.observation_shape)


def trained(architecture, *shaped, runs=RUNS, **options):
    trainer = Trainer(runs, lambda n: Shaped(n, *shaped), architecture=architecture, **options)
    assert train(trainer)
    return trainer


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_floats_are_learnt_from_as_bytes_are(kind):
    """The same game with its pixels divided before, not in the network: cast to bytes, nothing would be left of it."""
    bytes_, floats = (
        trained(NET, np.uint8, (1, 6, 6), 1),
        trained(dataclasses.replace(NET, scale=1.0), kind, (1, 6, 6), 255),
    )
    assert bytes_.games == floats.games
    np.testing.assert_allclose(floats.theta.numpy(), bytes_.theta.numpy(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("conv", ["loop", "patches", "grouped"])
def test_a_vector_is_an_image_without_convolutions(conv):
    flat, image = (trained(MLP, np.float32, shape, 255, conv=conv) for shape in [(36,), (1, 6, 6)])
    assert torch.equal(flat.theta, image.theta) and flat.games == image.games


def test_the_learner_keeps_what_the_actor_saw():
    trainer = Trainer([(0, CONFIG)], lambda n: Recorded(n), architecture=MLP)
    trainer.iterate()
    np.testing.assert_array_equal(trainer._buffer[0].numpy(), np.concatenate(trainer.env.seen[:16]))


class Recorded(Shaped):
    def __init__(self, n):
        super().__init__(n, np.float32, (36,), 1000)
        self.seen = []

    def _pixels(self):
        self.seen.append(super()._pixels())
        return self.seen[-1]


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint16, np.complex64])
def test_observations_that_would_lose_digits_are_refused(kind):
    with pytest.raises(TypeError, match="observations must be uint8 or floats, got "):
        trained(MLP, kind, (36,), 1)


def test_planes_of_booleans_are_bytes():
    kept, bytes_ = trained(MLP, np.bool_, (36,), 1), trained(MLP, np.uint8, (36,), 255)
    assert kept._buffer.dtype == torch.uint8
    assert kept.theta.shape == bytes_.theta.shape


def test_bfloat16_is_for_bytes():
    runs = [(0, dataclasses.replace(CONFIG, precision="bfloat16"))]
    with pytest.raises(ValueError, match="precision 'bfloat16' is for observations of uint8, got float32"):
        trained(MLP, np.float32, (36,), 1, runs=runs)


@pytest.mark.parametrize("shape", [(4,), (2, 3), ()])
def test_convolutions_need_an_image(shape):
    with pytest.raises(ValueError, match=r"is not \(channels, height, width\): use an architecture without"):
        StackedQNetwork(1, shape, 2)


class Walk(gymnasium.Env):
    """Counts its steps: its seed and the count are what one sees; it ends after 3 steps, or is cut after 5."""

    action_space = gymnasium.spaces.Discrete(2, start=1)

    def __init__(self, space=None, reward=None):
        self.observation_space = space or gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.reward = reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.drawn, self.t, self.ends = float(self.np_random.random()), 0, True
        return self._seen(), {}

    def _seen(self):
        return np.full(self.observation_space.shape, self.drawn + self.t, self.observation_space.dtype)

    def step(self, action):
        self.t += 1
        self.ends &= action == 1
        ended = self.ends and self.t == 3
        return self._seen(), self.reward or float(action), ended, ended or self.t == 5, {}


def test_ends_cuts_dead_steps_and_scores():
    pool = GymnasiumPool(Walk, 2)
    start = pool.reset(np.array([5, 6]))
    assert start.dtype == np.float32 and pool.observation_shape == (2,) and pool.n_actions == 2
    expected = [np.float32(np.random.default_rng(seed).random()) for seed in (5, 6)]
    np.testing.assert_array_equal(start[:, 0], expected)
    steps = [pool.step(np.array([0, 1])) for _ in range(7)]
    # The first walk takes action 1 three times and ends; the other takes action 2 five times and is cut.
    first, second = ([(bool(s.ended[i]), bool(s.cut[i]), bool(s.valid[i])) for s in steps] for i in range(2))
    going, dead = (False, False, True), (False, False, False)
    assert first == [going, going, (True, False, True), dead, going, going, (True, False, True)]
    assert second == [going, going, going, going, (False, True, True), dead, going]
    scores = np.full((7, 2), np.nan)
    scores[[2, 6], 0], scores[4, 1] = 3, 10
    np.testing.assert_array_equal([s.score for s in steps], scores)
    seen = np.array([s.observation[:, 0] for s in steps]) - start[:, 0]
    np.testing.assert_allclose(seen[:3], [[1, 1], [2, 2], [3, 3]], atol=1e-6)
    assert steps[0].observation is not steps[1].observation and (steps[0].observation != steps[1].observation).all()
    assert pool.state() is None


def test_each_environment_depends_on_its_own_seed():
    def played(seeds):
        pool = GymnasiumPool("CartPole-v1", len(seeds))
        return np.stack(
            [pool.reset(np.array(seeds)), *(pool.step(np.zeros(len(seeds), int)).observation for _ in range(30))]
        )

    np.testing.assert_array_equal(played([7, 8, 9])[:, 1], played([8])[:, 0])


def test_what_makes_the_environments_does_not_matter():
    vector = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("Acrobot-v1")] * 2)
    pools = (
        GymnasiumPool("Acrobot-v1", 2),
        GymnasiumPool(lambda: gymnasium.make("Acrobot-v1"), 2),
        GymnasiumPool(vector, 2),
    )
    starts = [pool.reset(np.array([0, 1])) for pool in pools]
    for start in starts[1:]:
        np.testing.assert_array_equal(start, starts[0])
    assert GymnasiumPool("CartPole-v1", 1, max_episode_steps=3).reset(np.array([0])).shape == (1, 4)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((3, 1), TypeError, "environment must be an identifier, a function .* got 3"),
        (("CartPole-v1", 0), ValueError, "n must be an integer >= 1"),
        (("Pendulum-v1", 1), ValueError, "environment must have Discrete actions, got Box"),
        (("FrozenLake-v1", 1), ValueError, "observations in a Box of .* Discrete.*FlattenObservation"),
        ((lambda: Walk(gymnasium.spaces.Box(0, 2**24 + 1, (2,), np.int64)), 1), ValueError, "observations in a Box"),
        ((lambda: Walk(gymnasium.spaces.Box(0, 1, (), np.float32)), 1), ValueError, "observations in a Box"),
        ((lambda: Walk(gymnasium.spaces.Box(0, 255, (84, 84, 3), np.uint8)), 1), ValueError, "channels first"),
        ((gymnasium.vector.SyncVectorEnv([Walk] * 2), 3), ValueError, "must be 3 environments .* got 2"),
        (
            (gymnasium.vector.SyncVectorEnv([Walk], autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP), 1),
            ValueError,
            "autoreset_mode .* got 1 with AutoresetMode.SAME_STEP",
        ),
    ],
)
def test_what_cannot_be_taken_is_named(arguments, error, message):
    with pytest.raises(error, match=message):
        GymnasiumPool(*arguments)


def test_settings_belong_to_an_identifier_and_calls_have_an_order():
    with pytest.raises(ValueError, match=r"\['reward'\] are settings of gymnasium.make"):
        GymnasiumPool(Walk, 1, reward=1.0)
    with pytest.raises(RuntimeError, match="call reset"):
        GymnasiumPool(Walk, 1).step(np.array([0]))
    with pytest.raises(ValueError, match="cannot be set"):
        GymnasiumPool(Walk, 1).load_state({})


def test_values_that_are_not_finite_are_refused():
    pool = GymnasiumPool(lambda: Walk(reward=np.nan), 1)
    pool.reset(np.array([0]))
    with pytest.raises(ValueError, match="rewards of the environment holds nan"):
        pool.step(np.array([0]))
    huge = gymnasium.wrappers.TransformObservation(Walk(), lambda seen: seen * 1e300, Walk().observation_space)
    with pytest.raises(ValueError, match="observations of the environment holds inf"):
        GymnasiumPool(lambda: huge, 1).reset(np.array([0]))


def test_a_vector_environment_that_takes_one_seed_says_so():
    pool = GymnasiumPool(gymnasium.make_vec("CartPole-v1", num_envs=2), 2)
    with pytest.raises(Exception, match="Seed must be") as caught:
        pool.reset(np.array([0, 1]))
    assert "a seed of its own" in caught.value.__notes__[0]


def test_the_advice_for_states_that_are_numbers_works():
    def make():
        return gymnasium.wrappers.FlattenObservation(gymnasium.make("FrozenLake-v1"))

    start = GymnasiumPool(make, 1).reset(np.array([0]))
    assert start.dtype == np.float32 and start.tolist() == [[1.0] + [0.0] * 15]


def test_images_stay_bytes_and_reach_the_network():
    image = gymnasium.spaces.Box(0, 255, (1, 6, 6), np.uint8)
    trainer = Trainer([(0, CONFIG)], lambda n: GymnasiumPool(lambda: Walk(image), n), architecture=NET)
    trainer.iterate()
    assert trainer._buffer.dtype == torch.uint8 and trainer.network.shapes["conv0.weight"] == (4, 1, 3, 3)


def test_it_goes_on_from_a_checkpoint_with_new_episodes(tmp_path):
    def new():
        return Trainer([(0, CONFIG)], lambda n: GymnasiumPool("CartPole-v1", n), architecture=MLP)

    first, rest = new(), new()
    first.iterate()
    first.save(tmp_path / "c")
    assert train(rest, checkpoint=tmp_path / "c") and rest.restarts == 1


@pytest.mark.slow
def test_cart_pole_is_learnt():
    """The last twenty games of 24,000 steps; from its floats cast to bytes, which are 0, 1 or 255, they last 9."""
    config = PQNConfig(total_steps=24_576, n_envs=8, n_steps=32, learning_rate=1e-3)
    architecture = Architecture(convs=(), dense=(128, 128), scale=1.0)
    trainer = Trainer([(0, config), (1, config)], lambda n: GymnasiumPool("CartPole-v1", n), architecture=architecture)
    assert train(trainer)
    assert max(np.mean([score for _, score in games[-20:]]) for games in trainer.games) > 100


def test_without_gymnasium(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(ImportError, match=r"GymnasiumPool needs Gymnasium.*-rl\[experiments\]"):
        GymnasiumPool("CartPole-v1", 1)
