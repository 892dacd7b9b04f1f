"""The Lua scripts of the leases on shards, each one atomic step. Pure.

A lease has two halves: a member, whose own lease ends by itself when it is not renewed, and a hash that says which
member has a shard. So renewing costs one write a second however many shards a batcher has, and all that a member has
ends at once with it. The clock is that of Redis.
"""

from inferq.scripts import Script

# KEYS: members, owners, newcomers. ARGV: me, lease (ms), how long the keys live (ms), when a renewal is late (ms),
# count of the shards to claim, those, then the shards to give up. A shard is claimed when no living member has it, and
# given up when it is mine. A newcomer is one that came so little time ago that the renewal of one that died before it
# need not be late yet, or, while some renewal is late, until that lease has ended.
# -> {living members, {shard, owner, ...}, newcomers}
TEND = Script(
    text="""
local members, owners, newcomers, me = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', members, '-inf', now)
if not redis.call('ZSCORE', members, me) then redis.call('ZADD', newcomers, now, me) end
local lease, late = tonumber(ARGV[2]), tonumber(ARGV[4])
redis.call('ZREMRANGEBYSCORE', newcomers, '-inf', now - lease - late)
redis.call('ZADD', members, now + lease, me)
local since = now - late
if redis.call('ZCOUNT', members, '-inf', now + lease - late) > 0 then since = '-inf' end
local claims = tonumber(ARGV[5])
for i = 6, 5 + claims do
  local owner = redis.call('HGET', owners, ARGV[i])
  if not owner or not redis.call('ZSCORE', members, owner) then redis.call('HSET', owners, ARGV[i], me) end
end
for i = 6 + claims, #ARGV do
  if redis.call('HGET', owners, ARGV[i]) == me then redis.call('HDEL', owners, ARGV[i]) end
end
for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[3]) end
local new = redis.call('ZRANGEBYSCORE', newcomers, since, '+inf')
return {redis.call('ZRANGE', members, 0, -1), redis.call('HGETALL', owners), new}
""",
)

# KEYS: members, owners. -> as TEND, but for the newcomers, and changes nothing.
LOOK = Script(
    text="""
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
return {redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. now, '+inf'), redis.call('HGETALL', KEYS[2]), {}}
""",
)

# KEYS: members, owners. ARGV: me. A member that leaves has nothing any more.
LEAVE = Script(
    text="""
redis.call('ZREM', KEYS[1], ARGV[1])
local found = redis.call('HGETALL', KEYS[2])
for i = 1, #found, 2 do
  if found[i + 1] == ARGV[1] then redis.call('HDEL', KEYS[2], found[i]) end
end
return 1
""",
)

# KEYS: how many shards there are, open jobs. ARGV: how many I know of, how many it was before there was such a key, 1
# to change it. It is changed only while no job is unfinished, since one would stay in a queue that nobody reads.
# -> {1 | 0, how many there are, unfinished jobs}
AGREE = Script(
    text="""
local stands, unfinished = redis.call('GET', KEYS[1]) or ARGV[2], redis.call('ZCARD', KEYS[2])
if stands ~= ARGV[1] and (unfinished > 0 or ARGV[3] ~= '1') then return {0, tonumber(stands), unfinished} end
redis.call('SET', KEYS[1], ARGV[1])
return {1, tonumber(ARGV[1]), unfinished}
""",
)
