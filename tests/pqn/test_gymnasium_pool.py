"""Any Gymnasium environment in PQN: what is acted on is what is learnt from, and what cannot be taken is refused."""

import dataclasses
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
gymnasium = pytest.importorskip("gymnasium")

from test_pqn import CONFIG, NET, Catch  # noqa: E402

from rrl.pqn import Architecture, GymnasiumPool, PQNConfig, StackedQNetwork, Step, Trainer, train  # noqa: E402

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
    for shape, got in (((36,), r"\(36,\)"), ((1, 6, 6), "float32")):
        with pytest.raises(ValueError, match=f"precision 'bfloat16' is for observations of uint8, .*got {got}: use"):
            trained(MLP, np.float32, shape, 1, runs=runs)


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


# Answers of an environment that are none --------------------------------------------------------


class Odd(gymnasium.Env):
    """An environment of three numbers and two actions, of whose answers one is replaced."""

    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, space, **odd):
        self.observation_space, self.odd = space, odd

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.odd.get("reset", (np.zeros(3, np.float32), {}))

    def step(self, action):
        usual = {"seen": np.zeros(3, np.float32), "reward": 1.0, "terminated": False, "truncated": False}
        return self.odd.get("step", (*(usual | {k: v for k, v in self.odd.items() if k in usual}).values(), {}))


BOX = gymnasium.spaces.Box(-1, 1, (3,), np.float32)
SHAPE = r"observations of the environment must be numbers of shape \(3,\), as its observation_space says, got "


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"reset": (np.zeros(4, np.float32), {})}, SHAPE + r"float32 of shape \(4,\)"),
        (
            {"reset": np.zeros(2)},
            r"reset\(\) of the environment must return \(observation, info\), got float64 of shape",
        ),
        ({"seen": np.zeros((3, 1))}, SHAPE + r"float64 of shape \(3, 1\)"),
        ({"seen": None}, SHAPE + "None"),
        ({"seen": "abc"}, SHAPE + "'abc'"),
        ({"seen": {"camera": 1}}, SHAPE + "{'camera': 1}"),
        ({"seen": [1, [2], 3]}, SHAPE + r"\[1, \[2\], 3\]"),
        (
            {"step": (np.zeros(3), 1.0, False, {})},
            r"step\(\) of the environment must return \(observation, reward, termin",
        ),
        ({"reward": None}, "rewards of the environment must be numbers, got None"),
        ({"reward": np.ones(2)}, r"rewards of the environment must be numbers, got float64 of shape \(2,\)"),
        ({"reward": "a"}, "rewards of the environment must be numbers, got 'a'"),
        ({"terminated": "no"}, "terminated of the environment must be True or False, got 'no'"),
        ({"terminated": None}, "terminated of the environment must be True or False, got None"),
        (
            {"truncated": np.array([True, False])},
            r"truncated of the environment must be True or False, got bool of shape",
        ),
        ({"truncated": 0.5}, "truncated of the environment must be True or False, got 0.5"),
    ],
)
def test_an_answer_that_is_none_is_named_with_what_was_expected(odd, words):
    pool = GymnasiumPool(lambda: Odd(BOX, **odd), 2)
    with pytest.raises(ValueError, match=words):
        pool.reset(np.array([0, 1]))
        pool.step(np.array([0, 1]))


def test_digits_that_the_space_does_not_hold_are_no_observation():
    space = gymnasium.spaces.Box(0, 5, (3,), np.int32)
    with pytest.raises(ValueError, match=r"observations of the environment must be int32, .* got float64"):
        GymnasiumPool(lambda: Odd(space, reset=(np.full(3, 0.5), {})), 2).reset(np.array([0, 1]))
    with pytest.raises(TypeError, match=r"environment must make a gymnasium\.Env, got 3"):
        GymnasiumPool(lambda: 3, 2)


@pytest.mark.parametrize(
    ("replaced", "words"),
    [
        ({"observation": np.zeros((3, 2), np.float32)}, r"observations of the pool must be .* \(2, 3\), got \(3, 2\)"),
        ({"observation": [[0.0] * 3] * 2}, r"observations of the pool must be an array of shape \(2, 3\), got list"),
        (
            {"reward": np.zeros(3)},
            r"reward of the pool must have one entry an environment, shape \(2,\), got shape \(3,\)",
        ),
        ({"ended": False}, r"ended of the pool must have one entry an environment, shape \(2,\), got shape \(\)"),
        ({"cut": np.zeros((2, 1))}, "cut of the pool must have one entry an environment"),
        ({"score": None}, "score of the pool must have one entry an environment"),
    ],
)
def test_a_pool_of_one_s_own_is_asked_for_what_the_learner_takes(replaced, words):
    """Two environments of three numbers: the transposed array would have been taken row by row, and learnt from."""

    class Pool:
        n_actions, observation_shape = 2, (3,)

        def __init__(self, n):
            self.answer = Step(np.zeros((n, 3), np.float32), *np.zeros((3, n)), np.ones(n, bool), np.full(n, np.nan))

        def reset(self, seeds):
            return self.answer.observation

        def step(self, actions):
            return self.answer._replace(**replaced)

    config = dataclasses.replace(CONFIG, n_envs=2)
    trainer = Trainer([(0, config)], Pool, architecture=MLP)
    with pytest.raises(ValueError, match=words):
        trainer.iterate()
    if "observation" in replaced:
        Pool.reset = lambda pool, seeds: replaced["observation"]
        with pytest.raises(ValueError, match=words):
            Trainer([(0, config)], Pool, architecture=MLP)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([], Catch), ValueError, "runs must be pairs of a seed and a PQNConfig, at least one, got"),
        ((3, Catch), ValueError, "runs must be pairs of a seed and a PQNConfig, at least one, got"),
        (([(0, {})], Catch), ValueError, "runs must be pairs of a seed and a PQNConfig, at least one, got"),
        (([(0, CONFIG)], "CartPole-v1"), TypeError, "make_env must be a function of the number of environments, got"),
        (([(0, CONFIG)], lambda n: n), TypeError, "must make a VectorEnv, got 4 without reset, step, n_actions, obs"),
    ],
)
def test_what_cannot_be_trained_is_refused_by_name(arguments, error, words):
    with pytest.raises(error, match=words):
        Trainer(*arguments, architecture=MLP)


@pytest.mark.parametrize("conv", ["loop", "patches", "grouped"])
def test_a_network_names_the_shape_that_it_takes(conv):
    """With one run after the other, a batch for a run too many or too few was cut without a word."""
    network = StackedQNetwork(2, (3,), 2, MLP, conv)
    theta = network.initial([np.random.default_rng(0)] * 2)
    assert tuple(network(theta, np.zeros((2, 5, 3))).shape) == (2, 5, 2)
    for shape in ((2, 5, 4), (5, 3), (3, 5, 3), (1, 5, 3)):
        with pytest.raises(ValueError, match=r"observations must have shape \(2, B, 3\), a batch for each run, got"):
            network(theta, np.zeros(shape))
    for wrong in (theta[:, :-1], theta[0], theta.numpy()):
        with pytest.raises(ValueError, match=rf"theta must be a tensor of shape \(runs, {network.n_parameters}\), got"):
            network(wrong, np.zeros((2, 5, 3)))
    with pytest.raises(ValueError, match="n_runs must be an integer >= 1, got 0"):
        StackedQNetwork(0, (3,), 2, MLP)
