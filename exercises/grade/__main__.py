"""The grader's command line.

python -m exercises.grade submissions/ --out grades/    grade a folder
python -m exercises.grade doctor                        what isolation this machine allows
"""

import argparse
import sys
from pathlib import Path

from exercises.grade import boxes, doctor
from exercises.grade.run import MOST_WORKERS, Refusal, run


def main(arguments=None):
    """Do what the command line asks; return the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["doctor"]:
        return doctor.main(arguments[1:])
    options = _parser().parse_args(arguments)
    limits = boxes.Limits(options.seconds, options.memory * boxes.MIB)
    way = "none" if options.unsafe_no_sandbox else options.isolation
    try:
        counts = run(
            options.submissions,
            options.out,
            [id.strip() for id in options.exercises.split(",") if id.strip()],
            options.specs,
            options.seed,
            limits,
            options.workers,
            options.resume,
            way,
        )
    except Refusal as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return 2
    except OSError as error:
        where = error.filename or options.out
        print(f"error: {where}: {error.strerror}; what is graded is kept; --resume goes on", file=sys.stderr)
        return 2
    except boxes.BoxError as error:
        print(
            f"error: a sandbox does not start any more: {error}\nwhat is graded is kept; --resume goes on",
            file=sys.stderr,
        )
        return 2
    except KeyboardInterrupt:
        print("stopped: what is graded is kept; --resume goes on", file=sys.stderr)
        return 130
    print(f"{counts.graded} graded, {len(counts.unreadable)} unreadable; what to look at: {options.out / 'report.md'}")
    print(f"grades: {options.out / 'grades.csv'}; pages for the learners: {options.out / 'feedback'}")
    return 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m exercises.grade", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("submissions", type=Path, help="folder; every .ipynb, .md or .py file in it is a submission")
    parser.add_argument("--out", type=Path, required=True, help="folder for grades.csv, feedback/ and results/")
    parser.add_argument("--exercises", default="", help="ids, with commas; default: those that half of them name")
    parser.add_argument("--specs", default="", help="folder with exercises of your own")
    parser.add_argument("--seed", default="", help="text that the secret numbers are made of; default: a new one")
    parser.add_argument("--seconds", type=_positive, default=10.0, help="for the code of one exercise (10)")
    parser.add_argument("--memory", type=_positive_whole, default=2048, help="MiB for the code of one exercise (2048)")
    parser.add_argument("--workers", type=_workers, default=0, help="processes that grade; default: one a processor")
    parser.add_argument("--resume", action="store_true", help="go on with a run that was cut off; grades nothing twice")
    parser.add_argument("--isolation", choices=("auto", "bwrap", "uid"), default="auto", help="how code is held in")
    parser.add_argument("--unsafe-no-sandbox", action="store_true", help="run the code without a sandbox")
    return parser


def _positive(text):
    value = float(text)
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"{text}: expected are more than 0 and at most 3600 seconds")
    return value


def _workers(text):
    value = int(text)
    if not 0 <= value <= MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"{text}: expected are 0 to {MOST_WORKERS}")
    return value


def _positive_whole(text):
    value = int(text)
    if value < 256:
        raise argparse.ArgumentTypeError(f"{text}: Python and NumPy alone take 256 MiB of addresses")
    return value


if __name__ == "__main__":
    sys.exit(main())
