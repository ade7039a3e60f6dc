"""Workers who do everything in the wrong order and twice: what is made of their results must not care."""

import pickle


class Backwards:
    """Works from the last piece to the first, twice each, with what could be sent; the second counts."""

    def ready(self):
        """It always is."""

    def each(self, work, pieces, what):
        for number in reversed(range(len(pieces))):
            for _ in range(2):
                result = pickle.loads(pickle.dumps(work))(pieces[number])
            yield number, result
