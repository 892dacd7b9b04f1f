"""One level of a closed loop: so many clients, each of which sends its next job when it has the last one's result."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

import msgspec

from inferq.jobs import JobRecord, Status, decode_record
from loadgen.client import Client
from loadgen.little import Interval, of_intervals
from loadgen.schedules import MOST_REQUESTS
from loadgen.sweeping.levels import warm_s
from loadgen.sweeping.answered import Answered, answered
from loadgen.sweeping.row import Row
from loadgen.texts import dealt
