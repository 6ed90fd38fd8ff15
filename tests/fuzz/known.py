"""Rows of the grammar that lead to known differences; each has a test that fails strictly until it is mended."""

AVOID = frozenset(
    {
        "{=dict} |= {dict}",
        "{int} - {vector}",
        "list(itertools.islice(itertools.count({int}), 2))",
    }
)
