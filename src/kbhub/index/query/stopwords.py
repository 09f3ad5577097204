"""Function words."""

_ENGLISH = """
    a about an and any are as at be been but by can could did do does for from had has have how i if in into is it its
    me my no not of on or our should so some such than that the their them then there these they this those to was we
    were what when where which who why will with would you your
"""

STOP_WORDS = frozenset(_ENGLISH.split())
"""English function words, dropped from a query unless nothing else is in it. German, French and Spanish share few of
these spellings, and there they are function words as well (`so`, `on`, `me`)."""
