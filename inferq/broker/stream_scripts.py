"""The Lua scripts of the queue in Redis Streams, each one atomic step; those of the record are in `inferq.scripts`."""

from typing import Final

from inferq.scripts import Script, record_script

# A consumer that never has a lease: what is assigned to it is free for the next one who looks.
NOBODY: Final = "nobody"

# What was given back is nobody's, and waits as what is new does.
_WAITING = f"""
local function waiting(stream, group)
  local pending = redis.pcall('XPENDING', stream, group)
  if pending.err then
    redis.call('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
    return redis.call('XLEN', stream)
  end
  local held = pending[1]
  for _, one in ipairs(pending[4] or {{}}) do
    if one[1] == '{NOBODY}' then held = held - one[2] end
  end
  return redis.call('XLEN', stream) - held
end
"""

# New records and their queue entries in one step, as long as the queues of their model together hold fewer than the
# limit.
# KEYS: open jobs, the stream, all streams..., then records. ARGV: channel, length of what precedes the id in a record's
# key, ttl (s), limit, group, count of all streams, count of the model's, where these are among all, then for each
# record its next look (ms), its message, the count of its fields' names and values, and those.
# -> how much waits in each of all streams now, then for each record 1, or 0 when the id is taken, or -1 when the
# model's are full.
ACCEPT = record_script(
    _WAITING
    + """
local before_id, limit, streams, at = tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[6]), 8
local out, total, mine = {}, 0, 0
for i = 1, streams do
  out[i] = waiting(KEYS[2 + i], ARGV[5])
  if KEYS[2 + i] == KEYS[2] then mine = i end
end
for _ = 1, tonumber(ARGV[7]) do
  total = total + out[tonumber(ARGV[at])]
  at = at + 1
end
for i = 3 + streams, #KEYS do
  local key, id = KEYS[i], string.sub(KEYS[i], before_id + 1)
  local last = at + 2 + tonumber(ARGV[at + 2])
  local answer = 1
  if redis.call('EXISTS', key) == 1 then
    answer = 0
  elseif total >= limit then
    answer = -1
  else
    local fields = {'entry', redis.call('XADD', KEYS[2], '*', 'id', id, 'm', ARGV[at + 1])}
    for j = at + 3, last do fields[#fields + 1] = ARGV[j] end
    create(key, KEYS[1], ARGV[1], id, ARGV[3], ARGV[at], fields)
    total = total + 1
    out[mine] = out[mine] + 1
  end
  out[#out + 1] = answer
  at = last + 1
end
return out
""",
)

# As ACCEPT, but into as many streams of a model as there are shards. To count them all for each call would cost more
# than the call itself, so the count is kept beside them: what was accepted is added, what was delivered since is not
# yet taken off. So it is never too low, and a job is refused only by a count that is `fresh` ms old at most.
# KEYS: open jobs, the count, then for each record its stream and itself. ARGV: channel, length of what precedes the id
# in a record's key, ttl (s), limit, group, bell, how old a count may be (ms), how old where it refuses (ms), count of
# the names that the model's streams begin with, those, how many shards each has, then for each record as in ACCEPT.
# -> for each record as in ACCEPT.
ACCEPT_SHARDED = record_script(
    _WAITING
    + """
local before_id, limit, names, at = tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[9]), tonumber(ARGV[9]) + 11
local jobs, now = (#KEYS - 2) / 2, now_ms()
local known = redis.call('HMGET', KEYS[2], 'jobs', 'at')
local total, counted = tonumber(known[1]), tonumber(known[2])
local age = counted and math.abs(now - counted)
if not total or age > tonumber(ARGV[7]) or (total + jobs > limit and age > tonumber(ARGV[8])) then
  total, counted = 0, now
  for i = 1, names do
    for shard = 0, tonumber(ARGV[10 + names]) - 1 do
      total = total + waiting(ARGV[9 + i] .. '.' .. string.format('%d', shard), ARGV[5])
    end
  end
end
local out, rung, bells = {}, {}, {}
for i = 3, #KEYS, 2 do
  local stream, key, id = KEYS[i], KEYS[i + 1], string.sub(KEYS[i + 1], before_id + 1)
  local last = at + 2 + tonumber(ARGV[at + 2])
  local answer = 1
  if redis.call('EXISTS', key) == 1 then
    answer = 0
  elseif total >= limit then
    answer = -1
  else
    local fields = {'entry', redis.call('XADD', stream, '*', 'id', id, 'm', ARGV[at + 1])}
    for j = at + 3, last do fields[#fields + 1] = ARGV[j] end
    create(key, KEYS[1], ARGV[1], id, ARGV[3], ARGV[at], fields)
    total = total + 1
    if not rung[stream] then
      rung[stream] = true
      bells[#bells + 1] = stream
    end
  end
  out[#out + 1] = answer
  at = last + 1
end
redis.call('HSET', KEYS[2], 'jobs', total, 'at', string.format('%.0f', counted))
if #bells > 0 then redis.call('PUBLISH', ARGV[6], table.concat(bells, ' ')) end
return out
""",
)

# Jobs of dead consumers become mine, at most ARGV[4] of them. KEYS: stream.
# ARGV: group, me, prefix of the lease keys, most entries. A consumer without a lease is dead; one without entries
# besides is forgotten. -> entries {{id, {field, value, ...}}, ...}
CLAIM = Script(
    text="""
local stream, group, me, prefix, room = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local out = {}
local consumers = redis.pcall('XINFO', 'CONSUMERS', stream, group)
if consumers.err then return out end
for _, info in ipairs(consumers) do
  local name, pending
  for i = 1, #info, 2 do
    if info[i] == 'name' then name = info[i + 1] elseif info[i] == 'pending' then pending = info[i + 1] end
  end
  if name ~= me and redis.call('EXISTS', prefix .. name) == 0 then
    if pending == 0 then
      redis.call('XGROUP', 'DELCONSUMER', stream, group, name)
    elseif room > 0 then
      local ids = {}
      for _, p in ipairs(redis.call('XPENDING', stream, group, '-', '+', room, name)) do ids[#ids + 1] = p[1] end
      room = room - #ids
      local known = {}
      for _, entry in ipairs(redis.call('XCLAIM', stream, group, me, 0, unpack(ids))) do
        -- A deleted entry comes back as nil from older servers.
        if entry and entry[2] then
          out[#out + 1] = entry
          known[entry[1]] = true
        end
      end
      -- Pending without an entry: there is nothing to run; its record is the sweeper's to end.
      for _, id in ipairs(ids) do
        if not known[id] then redis.call('XACK', stream, group, id) end
      end
    end
  end
end
return out
""",
)

# What lies ready, the first streams before later ones but for what is theirs. KEYS: streams... ARGV: group, me, most
# entries, how many of them later streams get before the first ones, most of later streams, how many streams are first
# ones. -> as XREADGROUP
READ = Script(
    text="""
local group, me, room, theirs, later = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local firsts = tonumber(ARGV[6])
local out, placed = {}, 0
local function read(first, last, most)
  local left = most
  for i = first, last do
    if left <= 0 then break end
    local rows = redis.call('XREADGROUP', 'GROUP', group, me, 'COUNT', left, 'STREAMS', KEYS[i], '>')
    if rows then
      if i <= firsts then placed = placed + 1 end
      table.insert(out, i <= firsts and placed or #out + 1, rows[1])
      left = left - #rows[1][2]
    end
  end
  return most - left
end
theirs = math.min(theirs, room)
local kept = read(firsts + 1, #KEYS, theirs)
room = room - kept
room = room - read(1, firsts, room)
-- Fewer than they might have: there are no more.
if kept == theirs then read(firsts + 1, #KEYS, math.min(room, later - kept)) end
return out
""",
)

# KEYS: stream. ARGV: group, ids... In one step: an entry that is acked but not deleted would count as waiting for ever.
SETTLE = Script(
    text="""
redis.call('XACK', KEYS[1], ARGV[1], unpack(ARGV, 2))
return redis.call('XDEL', KEYS[1], unpack(ARGV, 2))
""",
)

# Hand entries to nobody, so that the next claim takes them at once. KEYS: stream.
# ARGV: group, me, nobody, ids... Only what is still mine: another may have claimed it.
GIVE_BACK = Script(
    text="""
for i = 4, #ARGV do
  local p = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2])
  if #p == 1 then redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[3], 0, ARGV[i], 'JUSTID') end
end
return 1
""",
)

# KEYS: dead stream, stream. ARGV: limit, id, letter, group, entry. The letter is kept and the entry gone in one step.
BURY = Script(
    text="""
redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'id', ARGV[2], 'm', ARGV[3])
redis.call('XACK', KEYS[2], ARGV[4], ARGV[5])
redis.call('XDEL', KEYS[2], ARGV[5])
return 1
""",
)

# KEYS: record, stream. ARGV: id. A record that has not ended and whose entry is gone gets a new entry.
REQUEUE = Script(
    text="""
local v = redis.call('HMGET', KEYS[1], 'status', 'message', 'entry')
if not v[2] or (v[1] ~= 'queued' and v[1] ~= 'running') then return 0 end
if v[3] and #redis.call('XRANGE', KEYS[2], v[3], v[3]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'entry', redis.call('XADD', KEYS[2], '*', 'id', ARGV[1], 'm', v[2]))
return 1
""",
)

# KEYS: streams... ARGV: group. -> for each what waits: entries that no consumer was given, or that one gave back.
DEPTHS = Script(
    text=_WAITING
    + """
local out = {}
for i = 1, #KEYS do out[i] = waiting(KEYS[i], ARGV[1]) end
return out
""",
)
