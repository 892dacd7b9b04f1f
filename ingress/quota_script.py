"""The Lua script that lets submits of one API key in, by its rate and by its unfinished jobs. Pure.

The rate is a bucket that leaks: a submit pours its jobs in, and `rate` of them run out in a second (GCRA says the same
with times in place of levels). It holds what runs out in one second, so that is the largest burst. Level and moment are
kept instead of GCRA's one time, since microseconds of today times a rate leave no digits for a fraction of a job.

The clock is that of Redis, which all processes share. All jobs of a submit are let in, or none is, and what is refused
is charged nothing. A place among the unfinished jobs is held from here on, until the job's record takes it over, so
that submits side by side cannot share the last one.
"""

from typing import Final

from inferq.scripts import Script

# A submit is answered within two seconds, be it by a refusal; a place that its record has not taken by now is free.
HELD_MS: Final = 10_000

# KEYS: level and moment of the rate, unfinished jobs. ARGV: rate (jobs/s, 0: none), most unfinished jobs (0: none),
# jobs of this submit, how long places are held (ms), then the jobs' ids where they are known.
# -> {1 let in | 0 refused for its rate | -1 for unfinished jobs, jobs that fit at once now, ms until the bucket is
# empty, ms until this submit would fit, unfinished jobs that may still come}
ADMIT: Final = Script(
    text="""
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local rate, most, jobs = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local level, verdict, free = 0, 1, 0

if rate > 0 then
  local was, at = string.match(redis.call('GET', KEYS[1]) or '', '^(%S+) (%S+)$')
  if was then
    -- A clock that was set back makes nobody wait longer than for a whole bucket.
    level = math.max(0, tonumber(was) - math.max(0, now - tonumber(at)) * rate / 1000)
  end
  if level + jobs > rate + 1e-6 then verdict = 0 end
end
if most > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
  free = most - redis.call('ZCARD', KEYS[2])
  if verdict == 1 and jobs > free then verdict = -1 end
end

local wait = 0
if verdict == 0 then wait = math.ceil((level + jobs - rate) * 1000 / rate) end
if verdict == 1 then
  if rate > 0 then
    level = level + jobs
    redis.call('SET', KEYS[1], string.format('%.9f %.3f', level, now), 'PX', math.ceil(level * 1000 / rate) + 1000)
  end
  if most > 0 then
    free = free - jobs
    -- A place that a record has taken meanwhile is not shortened.
    local held = {}
    for i = 5, #ARGV do
      held[#held + 1] = now + ARGV[4]
      held[#held + 1] = ARGV[i]
    end
    if #held > 0 then redis.call('ZADD', KEYS[2], 'GT', unpack(held)) end
  end
end
local fits, empty = 0, 0
if rate > 0 then
  fits = math.max(0, math.floor(rate - level + 1e-6))
  empty = math.ceil(level * 1000 / rate)
end
return {verdict, fits, empty, wait, math.max(0, free)}
""",
)
