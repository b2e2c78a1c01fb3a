# A program that knows nothing of us: the mean of n tosses of a biased coin, on a grid that the shared seed shifts.
BEGIN {
    srand(shared); offset = rand(); width = 0.05
    srand(data)
    for (i = 0; i < n; i++) heads += rand() < 0.3
    cell = int(heads / n / width + offset)
    print cell, (cell - offset + 0.5) * width
}
