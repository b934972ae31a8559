"""Reads a page of /metrics as strictly as OpenMetrics 1.0 is written: what a scraper would refuse is an AssertionError."""
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"^({NAME})(?:\{{(.*)\}})? (-?[0-9.e+]+|NaN|\+Inf)$")
LABEL = re.compile(rf'({NAME})="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum"), "info": ("_info",)}


def parse(text):
    """Family -> {"type", "unit", "help", "samples": [(name, labels, value)]}."""
    assert text.endswith("# EOF\n") and text.count("# EOF") == 1, text[-200:]
    families, current, seen = {}, None, set()
    for line in text.splitlines()[:-1]:
        if line.startswith("# "):
            kind, name, rest = line[2:].split(" ", 2)
            if kind == "TYPE":
                assert name not in families, f"{name} comes twice"
                current = families[name] = {"type": rest, "unit": "", "help": "", "samples": []}
                current_name = name
            else:
                assert name == current_name and kind in ("UNIT", "HELP"), line
                current[kind.lower()] = rest
            continue
        match = SAMPLE.match(line)
        assert match, f"no sample: {line}"
        name, labels, value = match.groups()
        assert name in [current_name + suffix for suffix in SUFFIXES[current["type"]]], f"{name} in family {current_name}"
        assert re.fullmatch(f"(?:{LABEL.pattern})*", labels or ""), labels
        pairs = LABEL.findall(labels or "")
        assert (name, tuple(pairs)) not in seen, f"{line} comes twice"
        seen.add((name, tuple(pairs)))
        current["samples"].append((name, dict(pairs), float(value)))
    for name, family in families.items():
        if family["unit"]:
            assert name.endswith("_" + family["unit"]), name
        if family["type"] == "histogram":
            check_histogram(name, family["samples"])
    return families


def check_histogram(name, samples):
    buckets = {}
    for sample, labels, value in samples:
        key = tuple((k, v) for k, v in labels.items() if k != "le")
        if sample.endswith("_bucket"):
            before = buckets.setdefault(key, [])
            assert not before or before[-1][0] < float(labels["le"]) and before[-1][1] <= value, (name, labels)
            before.append((float(labels["le"]), value))
    for sample, labels, value in samples:
        if sample.endswith("_count"):
            rows = buckets[tuple(labels.items())]
            assert rows[-1] == (float("inf"), value), (name, rows[-1], value)


def total(families, name):
    """Of all series of a family; of a histogram, how often it was observed."""
    family = families[name]
    return sum(value for sample, _, value in family["samples"]
               if not sample.endswith(("_bucket", "_sum")))
