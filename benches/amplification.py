"""Write and space amplification of the parts of a laboratory run: amplification.py RUN RECORDS (see leveled_amplification.sh)."""

import json
import pathlib
import statistics
import sys

RECORD_BYTES = 1000 + 23  # a field, and YCSB's key as long as it mostly is


def written(counters):
    return counters["flushed_bytes_total"] + counters["compacted_bytes_total"]


def kept(counters):
    return counters.get("sstable_bytes_live", counters["disk_bytes"])


def main():
    run, records = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    live = records * RECORD_BYTES
    print("| engine | write amplification, load | overwrites | space amplification, mean while overwriting | most | settled | seconds overwriting |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for path in sorted((run / "parts").glob("*.json")):
        if ".stopped" in path.name:
            continue
        part = json.loads(path.read_text())
        load, overwrite, settled = (phase["statistics"] for phase in part["phases"] if phase.get("statistics"))
        given = overwrite["report"]["operations"] * RECORD_BYTES
        seconds = [second["counters"] for second in overwrite["series"] if second.get("counters")]
        second_half = [kept(counters) / live for counters in seconds[len(seconds) // 2 :]]
        print(
            f"| {part['part']['engine']} "
            f"| {written(overwrite['before']) / live:.2f} "
            f"| {(written(settled['before']) - written(overwrite['before'])) / given:.2f} "
            f"| {statistics.mean(second_half):.2f} | {max(second_half):.2f} "
            f"| {kept(settled['before']) / live:.2f} | {overwrite['report']['seconds']:.0f} |"
        )


if __name__ == "__main__":
    main()
