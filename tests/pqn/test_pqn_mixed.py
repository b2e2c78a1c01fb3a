"""Mixed precision: near float32, ties only where outputs are rounded, exact resumption; damaged checkpoints."""

import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_pqn import CONFIG, NET, Catch, trainer  # noqa: E402

from rrl.pqn import (  # noqa: E402
    Architecture,
    PQNConfig,
    StackedQNetwork,
    mixed,
    train,
)
from rrl.pqn.agreement import tied  # noqa: E402
from rrl.pqn.files import DamagedFile, load_tensors, save_tensors  # noqa: E402

MIXED = dataclasses.replace(CONFIG, precision="bfloat16")
# The first kernel is no multiple of its stride, and one: then squares of pixels are its channels.
ODD, EVEN = (Architecture(convs=((6, kernel, 2), (5, 2, 1)), dense=(16, 8)) for kernel in (3, 4))


@pytest.fixture(autouse=True)
def bfloat16(monkeypatch):
    """Without its instructions the products are slow and the same."""
    monkeypatch.setattr(mixed, "has_bfloat16", lambda: True)


def rounded(x):
    return x.to(torch.bfloat16).to(torch.float64)


def reference(p, x, architecture):
    """The mixed network in float64, each number that enters a product or leaves a layer rounded to bfloat16."""
    functional, x = torch.nn.functional, torch.as_tensor(x).double()
    p = {name: part[0].double() for name, part in p.items()}
    first = rounded((p["conv0.weight"].float() / 255).double())
    for i, (_, _, stride) in enumerate(architecture.convs):
        weight = first if i == 0 else rounded(p[f"conv{i}.weight"])
        x = rounded(functional.conv2d(x, weight, rounded(p[f"conv{i}.bias"]), stride))
        x = rounded(functional.layer_norm(x, x.shape[1:], p[f"conv{i}.scale"], p[f"conv{i}.shift"]).relu())
    x = x.flatten(1)
    for i in range(len(architecture.dense)):
        x = rounded(functional.linear(x, rounded(p[f"dense{i}.weight"]), rounded(p[f"dense{i}.bias"])))
        x = rounded(functional.layer_norm(x, x.shape[1:], p[f"dense{i}.scale"], p[f"dense{i}.shift"]).relu())
    return functional.linear(x, p["head.weight"], p["head.bias"])


def networks(architecture):
    """The same parameters, none of them zero or one, in both precisions; and observations."""
    plain, fast = (StackedQNetwork(2, (3, 11, 9), 4, architecture, precision=p) for p in ("float32", "bfloat16"))
    theta = plain.initial([np.random.default_rng(seed) for seed in (0, 1)])
    theta += 0.1 * torch.randn(theta.shape, generator=torch.Generator().manual_seed(0))
    seen = np.random.default_rng(1).integers(0, 256, (2, 50, 3, 11, 9)).astype(np.uint8)
    return plain, fast, theta, seen


@pytest.mark.parametrize("architecture", [ODD, EVEN])
def test_values_are_those_of_the_definition(architecture):
    """Layouts, the folded scale and the order of dense weights: against float64 with the same roundings."""
    plain, fast, theta, seen = networks(architecture)
    q = fast(theta, seen)
    assert q.dtype == torch.float32 and q.shape == (2, 50, 4)
    for run in range(2):
        want = reference(fast.parameters(theta[run : run + 1]), seen[run], architecture)
        # A sum that falls near the middle of two bfloat16 numbers may round either way: one in a few hundred.
        assert (q[run] - want).abs().median() < 2e-3 and (q[run] - want).abs().max() < 0.1
    difference = (q - plain(theta, seen)).abs()
    assert 1e-4 < difference.mean() < 0.02  # not float32, and near it
    assert torch.equal(fast.values(fast.at_rest(theta), seen), q)
    assert torch.equal(
        fast.values(fast.at_rest(theta), [mixed.pixels(torch.as_tensor(own), architecture) for own in seen]), q
    )


def gradient(network, theta, seen):
    own = theta.clone().requires_grad_()
    return network.parameters(torch.autograd.grad((network(own, seen) ** 2).sum(), own)[0])


def test_gradients_are_near_those_of_float32():
    plain, fast, theta, seen = networks(ODD)
    mixed_gradient = gradient(fast, theta, seen)
    for name, part in gradient(plain, theta, seen).items():
        assert (part - mixed_gradient[name]).norm() < 0.05 * part.norm(), name


def test_squares_as_channels_give_the_same_gradients(monkeypatch):
    """Beside the same network with its pixels as they are: only the order of float32 sums differs."""
    _, fast, theta, seen = networks(EVEN)
    squares = gradient(fast, theta, seen)
    monkeypatch.setattr(mixed, "_side", lambda architecture: 1)
    for name, part in gradient(fast, theta, seen).items():
        assert (part - squares[name]).norm() < 0.01 * part.norm(), name


@pytest.mark.parametrize("architecture", [ODD, EVEN, Architecture(convs=()), Architecture()])
def test_pixels_are_exact(architecture):
    """Every pixel that a kernel meets stands where the convolution looks for it."""
    seen = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (5, 3, 19, 17)).astype(np.uint8))
    out = mixed.pixels(seen, architecture)
    side = {ODD: 1, EVEN: 2, Architecture(): 4}.get(architecture, 1)
    assert out.dtype == torch.bfloat16 and out.is_contiguous() and out.shape == (5, 19 // side, 17 // side, 3 * side**2)
    for row, column, channel in np.ndindex(19 // side * side, 17 // side * side, 3):
        place = channel * side**2 + row % side * side + column % side
        assert torch.equal(out[:, row // side, column // side, place].to(torch.uint8), seen[:, channel, row, column])


def test_plain_runs_have_no_ties():
    """Q-values of 8 bits would tie now and then; the last layer is float32."""
    t = trainer([(seed, MIXED) for seed in range(4)])
    assert train(t) and {tie for entry in t.curve for tie in entry["ties"]} == {0.0}
    seen = np.random.default_rng(0).integers(0, 256, (4, 5000, 1, 6, 6)).astype(np.uint8)
    with torch.no_grad():
        q = t.network(t.theta, seen)
    assert not tied(q.numpy()).any() and tied(q.bfloat16().float().numpy()).sum() > 5
    grid = trainer([(0, dataclasses.replace(MIXED, grid_step=0.4))])
    train(grid)
    assert max(entry["ties"][0] for entry in grid.curve) > 0.1


def test_targets_and_optimiser_stay_in_float32():
    t = trainer([(0, MIXED)])
    t.iterate()
    kinds = {part.dtype for part in (t.theta, t.moments, t._act()[2])}
    assert kinds == {torch.float32} and t.network.precision == "bfloat16" and t.precisions == ["bfloat16"]
    # Steps of a size that bfloat16 weights could not take.
    changed = (t.theta.bfloat16() != t.theta).float().mean()
    assert changed > 0.9


def test_it_learns_as_in_float32():
    """Late games of three seeds in both precisions; the difference of means lies within what seeds differ by."""
    base = dataclasses.replace(CONFIG, total_steps=64 * 250, learning_rate=2e-3)
    late = []
    for precision in ("float32", "bfloat16"):
        t = trainer([(seed, dataclasses.replace(base, precision=precision)) for seed in range(3)])
        assert train(t)
        for games in t.games:
            assert np.mean([s for _, s in games[-50:]]) > np.mean([s for _, s in games[:50]]) + 5
        late.append([np.mean([s for _, s in games[-50:]]) for games in t.games])
    float32, bfloat16 = map(np.array, late)
    assert abs(float32.mean() - bfloat16.mean()) < 4 * np.hypot(float32.std(ddof=1), bfloat16.std(ddof=1)) / np.sqrt(3)


def test_a_run_does_not_depend_on_its_batch():
    runs = [(1, MIXED), (2, dataclasses.replace(MIXED, grid_step=0.1))]
    together, alone = trainer(runs), trainer(runs[1:])
    train(together), train(alone)
    assert torch.equal(together.theta[1], alone.theta[0]) and together.games[1] == alone.games[0]


def test_resume_is_bit_for_bit(tmp_path):
    path, whole, half, rest = tmp_path / "c.safetensors", *(trainer([(1, MIXED)]) for _ in range(3))
    train(whole)
    for _ in range(6):
        half.iterate()
    half.save(path)
    assert train(rest, checkpoint=path) and torch.equal(whole.theta, rest.theta) and whole.curve == rest.curve


def test_a_processor_without_bfloat16_says_so(tmp_path, monkeypatch):
    began = trainer([(0, MIXED)])
    began.iterate()
    began.save(tmp_path / "c.safetensors")
    monkeypatch.setattr(mixed, "has_bfloat16", lambda: False)
    with pytest.warns(UserWarning, match="no bfloat16 products: float32 is used in place of bfloat16"):
        t = trainer([(0, MIXED)])
    assert t.network.precision == "float32" and t.precisions == ["float32"]
    plain = trainer([(0, CONFIG)])
    t.iterate(), plain.iterate()
    assert torch.equal(t.theta, plain.theta)
    t.load(tmp_path / "c.safetensors")
    assert t.precisions == ["bfloat16", "float32"] and began.exact and not t.exact
    with pytest.warns(UserWarning, match="bfloat16 is not for cuda"):
        assert mixed.usable("bfloat16", torch.device("cuda")) == "float32"


@pytest.mark.parametrize(
    ("text", "machine", "found"),
    [
        ("processor: 0\nflags\t\t: fpu avx512f avx512_bf16 x\n", "x86_64", True),
        ("flags: fpu amx_bf16\n", "x86_64", True),
        ("flags: fpu avx512f avx512_bf16s\n", "x86_64", False),
        ("Features\t: fp asimd bf16\n", "aarch64", True),
        ("Features\t: fp asimd\n", "aarch64", False),
        ("flags: bf16\n", "x86_64", False),
        ("", "x86_64", False),
        (None, "arm64", False),
    ],
)
def test_what_a_processor_can(text, machine, found, monkeypatch):
    def read(self, encoding):
        if text is None:
            raise FileNotFoundError(self)
        return text

    monkeypatch.undo()
    monkeypatch.setattr("pathlib.Path.read_text", read)
    monkeypatch.setattr("platform.machine", lambda: machine)
    mixed.has_bfloat16.cache_clear()
    try:
        assert mixed.has_bfloat16() == found
    finally:
        mixed.has_bfloat16.cache_clear()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_observations_of_another_shape_are_refused(precision):
    """They were cropped to whole squares of pixels without a word."""
    net = StackedQNetwork(1, (3, 11, 9), 4, EVEN, precision=precision)
    theta = net.initial([np.random.default_rng(0)])
    for shape in [(1, 5, 3, 11, 10), (1, 5, 11, 9, 3), (2, 5, 3, 11, 9), (5, 3, 11, 9)]:
        with pytest.raises(ValueError, match=r"observations must have shape \(1, B, 3, 11, 9\)"):
            net(theta, np.zeros(shape, np.uint8))


def test_mixed_precision_is_for_frames_of_bytes():
    net = StackedQNetwork(1, (3, 11, 9), 4, EVEN, precision="bfloat16")
    with pytest.raises(ValueError, match=r"observations must be uint8 .* got torch\.float32"):
        net(net.initial([np.random.default_rng(0)]), np.zeros((1, 5, 3, 11, 9), np.float32))
    with pytest.raises(ValueError, match=r"is for observations of uint8, .* got \(128,\): use 'float32'"):
        StackedQNetwork(1, (128,), 4, Architecture(convs=(), dense=(16,)), precision="bfloat16")


def test_settings():
    """Records of float32 runs keep the names that they had before there was a precision."""
    assert "precision" not in PQNConfig().settings() and MIXED.settings()["precision"] == "bfloat16"
    assert PQNConfig(**MIXED.settings()) == MIXED and PQNConfig(**CONFIG.settings()) == CONFIG
    with pytest.raises(ValueError, match=r"precision must be .* 'half'"):
        dataclasses.replace(CONFIG, precision="half")
    with pytest.raises(ValueError, match=r"precision must be .* 'half'"):
        StackedQNetwork(1, Catch.observation_shape, 3, NET, precision="half")
    with pytest.raises(ValueError, match="conv must be 'loop', got 'patches'"):
        StackedQNetwork(1, Catch.observation_shape, 3, NET, "patches", "bfloat16")
    with pytest.raises(ValueError, match="may differ only in"):
        trainer([(0, CONFIG), (0, MIXED)])


# Checkpoints --------------------------------------------------------------------------------------


def cut(data):
    return data[: len(data) // 2]


def flipped(data):
    return data[:-100] + bytes([data[-100] ^ 1]) + data[-99:]


@pytest.mark.parametrize("damage", [cut, flipped, lambda data: b"", lambda data: bytes(len(data))])
def test_a_damaged_checkpoint_is_set_aside(damage, tmp_path, capsys):
    path, whole, half, rest = tmp_path / "c.safetensors", *(trainer([(1, CONFIG)]) for _ in range(3))
    train(whole)
    half.iterate()
    half.save(path)
    bad = damage(path.read_bytes())
    path.write_bytes(bad)
    with pytest.raises(DamagedFile, match=r"whole file of tensors|digest differs"):
        half.load(path)
    assert train(rest, checkpoint=path) and torch.equal(rest.theta, whole.theta)
    (aside,) = tmp_path.glob("*.corrupt")
    assert aside.read_bytes() == bad and f"it is now {aside.name}" in capsys.readouterr().err
    # What lies there now is a whole one, of the finished run.
    half.load(path)
    assert half.iteration == whole.iteration


@pytest.mark.parametrize("change", ["theta", "iteration", "no digest"])
def test_a_forged_checkpoint_is_refused(change, tmp_path):
    from safetensors import safe_open
    from safetensors.torch import save_file

    path, t = tmp_path / "c.safetensors", trainer([(1, CONFIG)])
    t.save(path)
    with safe_open(path, framework="pt") as file:
        metadata, tensors = file.metadata(), {key: file.get_tensor(key) for key in file.keys()}
    if change == "theta":
        tensors["theta"] = torch.zeros_like(tensors["theta"])
    elif change == "iteration":
        metadata["rrl"] = metadata["rrl"].replace('"iteration": 0', '"iteration": 1000000000')
    else:
        del metadata["sha256"]
    save_file(tensors, path, metadata=metadata)
    with pytest.raises(DamagedFile, match="digest differs"):
        t.load(path)


def test_a_checkpoint_that_vanishes_is_none(tmp_path):
    assert train(trainer([(1, CONFIG)]), checkpoint=tmp_path / "gone.safetensors")
    with pytest.raises(FileNotFoundError):
        load_tensors(tmp_path / "never.safetensors")


def test_tensors_are_on_disk_before_they_have_their_name(tmp_path, monkeypatch):
    calls, path = [], tmp_path / "a.safetensors"
    monkeypatch.setattr("os.fsync", lambda file: calls.append(path.exists()))
    save_tensors(path, {"x": torch.arange(3)}, {"a": [1, None]})
    assert calls == [False, True] and [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]
    tensors, header = load_tensors(path)
    assert tensors["x"].tolist() == [0, 1, 2] and header == {"a": [1, None]}
