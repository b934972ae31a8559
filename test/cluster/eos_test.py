"""Each input exactly once in the output, while the broker and the workers are killed: eos_loop.py for some seconds."""
import os

from eos_loop import KEYS, OUTPUT_PARTITIONS, Difference, compare, run


def librdkafka(_, __):
    return {"librdkafka": [os.environ["MQ_EOS_WORKER"]]}


def copied(numbers, by="w"):
    """What workers that do all right leave of these numbers."""
    output = {partition: [] for partition in range(OUTPUT_PARTITIONS)}
    for number in numbers:
        output[number % KEYS % OUTPUT_PARTITIONS].append(f"{number}@{by}".encode())
    return output


def test_the_comparison_tells_what_is_wrong():
    right = dict(missing=0, doubled=0, misplaced=0, alien=0)
    assert compare(500, copied(range(500))) == (right, [])
    assert compare(500, copied([n for n in range(500) if n not in (7, 499)]))[0] == right | dict(missing=2)
    assert compare(500, copied([*range(500), 3, 3]))[0] == right | dict(doubled=2)
    assert compare(500, copied(range(501)))[0] == right | dict(alien=1)
    swapped = [*range(500)]
    swapped[60], swapped[60 + KEYS] = swapped[60 + KEYS], swapped[60]
    assert compare(500, copied(swapped))[0] == right | dict(misplaced=1)
    elsewhere = copied(range(500))
    elsewhere[0].append(elsewhere[1].pop())
    assert compare(500, elsewhere)[0] == right | dict(misplaced=1)
    assert compare(1, {0: [b"what?"]})[0] == right | dict(alien=1, missing=1)


def test_each_input_is_in_the_output_once():
    figures = run(seconds=7, clients=["librdkafka"], made_by=librdkafka, workers=2, gap=2.5)
    assert figures["broker_kills"] > 0 and figures["worker_kills"] > 0 and figures["inputs"] > 1000, figures


def test_workers_that_commit_beside_the_transaction_are_found_out():
    try:
        run(seconds=3, clients=["librdkafka"], made_by=librdkafka, workers=2, gap=60, careless=True)
    except Difference as difference:
        assert "doubled: " in str(difference), difference
    else:
        raise AssertionError("nothing was found")
