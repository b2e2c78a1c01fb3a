"""Shared by all tests: a deterministic hypothesis profile, and exact limits for statistical tests."""

import numpy as np
import pytest
from check_pages import CHROMIUM_FLAGS, find_chromium
from hypothesis import settings
from scipy.stats import binom

# Derandomised: a test passes or fails for everyone alike. No deadline: the machines are shared.
settings.register_profile("rrl", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("rrl")


@pytest.fixture
def rng():
    """Fresh data, the same in every run of the tests."""
    return np.random.default_rng(20261128)


@pytest.fixture(scope="module")
def browser():
    """One Chromium for the tests of a module, which are skipped where there is none."""
    executable = find_chromium()
    if executable is None:
        pytest.skip("no Chromium is installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS, chromium_sandbox=False)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def acceptance():
    """Interval of binomial counts that a true probability leaves with chance at most `alarm`."""

    def interval(trials, probability, alarm=1e-6):
        return binom.ppf(alarm / 2, trials, probability), binom.isf(alarm / 2, trials, probability)

    return interval
