"""The Lua scripts that create and move a job record, each one atomic step.

A step checks the state, writes, raises `seq`, sets the time to live and publishes the event; nothing can come
between. Which statuses a move may leave is handed in from the table in `inferq.jobs`, so the rule is written once.

A record is a hash whose fields are JSON fragments, so that a script can put the public record together by joining
strings: decoding and encoding JSON in Lua would cost more and would not keep numbers as they were. Fields that the
public record does not show: `charges`, `history`, `due_ms`, `created_ms`, `queue`, `message`, `entry`, `dead`.

`finished_at` and the timings `store` and `total` are stamped inside the step by the clock of Redis: that is when the
result is stored. The hosts' clocks are taken to be in step; what would come out negative is shown as 0.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

# The order is the order of the public record.
PUBLIC_FIELDS = (
    "status", "seq", "model", "result", "error", "cached", "attempt", "deadline_at",
    "created_at", "started_at", "finished_at", "timings_ms", "batch",
)  # fmt: skip  # as the contract lists them

_PRELUDE = """
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + t[2] / 1000
end

-- Days to a civil date: the sandbox has no os.date. Proleptic Gregorian, as in Hinnant's "chrono-compatible
-- low-level date algorithms".
local function iso(ms)
  local s = math.floor(ms / 1000)
  local milli = math.floor(ms) - s * 1000
  local days = math.floor(s / 86400)
  local rest = s - days * 86400
  local z = days + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  local day = doy - math.floor((153 * mp + 2) / 5) + 1
  local month = mp < 10 and mp + 3 or mp - 9
  local year = yoe + era * 400 + (month <= 2 and 1 or 0)
  return string.format('"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ"', year, month, day,
    math.floor(rest / 3600), math.floor(rest / 60) % 60, rest % 60, milli)
end

local function announce(key, channel, id)
  local v = redis.call('HMGET', key, 'status', 'seq', 'model', 'result', 'error', 'cached', 'attempt', 'deadline_at',
    'created_at', 'started_at', 'finished_at', 'timings_ms', 'batch')
  local record = table.concat({'{"job_id":"', id, '","status":"', v[1], '","seq":', v[2], ',"model":', v[3],
    ',"result":', v[4] or 'null', ',"error":', v[5] or 'null', ',"cached":', v[6] or 'false',
    ',"attempt":', v[7], ',"deadline_at":', v[8] or 'null', ',"created_at":', v[9],
    ',"started_at":', v[10] or 'null', ',"finished_at":', v[11] or 'null',
    ',"timings_ms":', v[12] or 'null', ',"batch":', v[13] or 'null', '}'})
  redis.call('PUBLISH', channel, '1 job.' .. v[1] .. ' ' .. id .. ' ' .. v[2] .. '\\n' .. record)
end

local function create(key, open, channel, id, ttl, due, pairs)
  redis.call('HSET', key, 'status', 'queued', 'seq', 1, 'attempt', 0, 'charges', 0, unpack(pairs))
  redis.call('EXPIRE', key, ttl)
  redis.call('ZADD', open, due, id)
  announce(key, channel, id)
end

local function slice(from, to)
  local out = {}
  for i = from, to do out[#out + 1] = ARGV[i] end
  return out
end
"""


@dataclass(frozen=True, kw_only=True)
class Script:
    """One Lua script and the digest that Redis knows it by."""

    text: str

    @cached_property
    def sha(self) -> str:
        """SHA-1 of the text, as EVALSHA takes it."""
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


def record_script(body: str) -> Script:
    """Make a script that may call what the prelude defines: `now_ms`, `iso`, `announce`, `create`, `slice`."""
    return Script(text=_PRELUDE + body)


# KEYS: record, open jobs. ARGV: channel, id, ttl (s), next look (ms), then fields. -> 1, or 0 when the id is taken.
CREATE = record_script(
    """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
create(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3], ARGV[4], slice(5, #ARGV))
return 1
""",
)

# One move of the lifecycle. KEYS: record, open jobs.
# ARGV: 1 channel, 2 id, 3 statuses that the move may leave (",queued,running,"), 4 status it leads to, 5 ttl (s) or "",
# 6 flags: S started, F final, C charged; 7 when the work ended (ms) or "", 8 one entry of history or "",
# 9 status to rebuild a lost record in or "", 10 its ttl, 11 its next look, 12 count of the values to rebuild it
# from, these, then the fields to set.
# -> {1 moved | 0 refused | -1 no such job, status, seq, attempt, charges, dead, history}
MOVE = record_script(
    """
local key, open, channel, id = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local status = redis.call('HGET', key, 'status')
local count = tonumber(ARGV[12])
if not status then
  if ARGV[9] == '' then return {-1, '', 0, 0, 0, '', ''} end
  create(key, open, channel, id, ARGV[10], ARGV[11], slice(13, 12 + count))
  status = ARGV[9]
  if status == 'running' then redis.call('HSET', key, 'status', status, 'seq', 2, 'attempt', 1) end
end
local function answer(code, now)
  local v = redis.call('HMGET', key, 'seq', 'attempt', 'charges', 'dead', 'history')
  return {code, now, tonumber(v[1]), tonumber(v[2]), tonumber(v[3]), v[4] or '', v[5] or ''}
end
if not string.find(ARGV[3], ',' .. status .. ',', 1, true) then return answer(0, status) end

local fields = slice(13 + count, #ARGV)
local function set(name, value)
  fields[#fields + 1] = name
  fields[#fields + 1] = value
end
local now = now_ms()
set('status', ARGV[4])
redis.call('HINCRBY', key, 'seq', 1)
if string.find(ARGV[6], 'S', 1, true) then
  redis.call('HINCRBY', key, 'attempt', 1)
  set('started_at', iso(now))
end
if string.find(ARGV[6], 'C', 1, true) then redis.call('HINCRBY', key, 'charges', 1) end
if ARGV[8] ~= '' then
  local history = redis.call('HGET', key, 'history')
  set('history', history and history .. ',' .. ARGV[8] or ARGV[8])
end
if string.find(ARGV[6], 'F', 1, true) then
  set('finished_at', iso(now))
  if ARGV[7] ~= '' then
    local created = tonumber(redis.call('HGET', key, 'created_ms')) or now
    for i = 1, #fields, 2 do
      if fields[i] == 'timings_ms' then
        fields[i + 1] = string.format('{%s,"store":%.3f,"total":%.3f}', fields[i + 1],
          math.max(0, now - tonumber(ARGV[7])), math.max(0, now - created))
      end
    end
  end
end
redis.call('HSET', key, unpack(fields))
if string.find(ARGV[6], 'F', 1, true) then
  redis.call('HDEL', key, 'message', 'entry')
  redis.call('ZREM', open, id)
end
if ARGV[5] ~= '' then redis.call('EXPIRE', key, ARGV[5]) end
announce(key, channel, id)
return answer(1, ARGV[4])
""",
)

# KEYS: record. Notes that the dead letter is kept, unless the record is gone: a bare field would never go.
BURIED = Script(
    text="""
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'dead', 'kept') end
return 1
""",
)

# KEYS: lock. ARGV: holder, time to live (ms). -> 1 when the holder has it now.
LOCK = Script(
    text="""
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
""",
)
