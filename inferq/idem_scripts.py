"""The Lua scripts of idempotency keys, each one atomic step; what their answers mean is in `ingress.claims`.

A key's value is a hash. While somebody works on the first answer it is a claim: `fingerprint` of the request's body,
`seed` that job ids come from, `token` of the one who works, `at_ms` when he began by the clock of Redis. Once there is
an answer it holds `fingerprint`, `answer` and `location`, and the rest is removed. It goes by itself.
"""

from inferq.scripts import Script

# Claim a key, or say what is there. A claim older than the age is its asker's from then on, with the seed that it has;
# so is one from the future, which is what a clock that was set back leaves.
# KEYS: key. ARGV: fingerprint, seed, token, time to live (s), age (ms).
# -> {'claimed' | 'taken_over', seed} | {'kept', answer, location} | {'pending' | 'mismatch' | 'foreign'}
CLAIM = Script(
    text="""
local key = KEYS[1]
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local kind = redis.call('TYPE', key).ok
if kind == 'none' then
  redis.call('HSET', key, 'fingerprint', ARGV[1], 'seed', ARGV[2], 'token', ARGV[3], 'at_ms', now)
  redis.call('EXPIRE', key, ARGV[4])
  return {'claimed', ARGV[2]}
end
if kind ~= 'hash' then return {'foreign'} end
local v = redis.call('HMGET', key, 'fingerprint', 'seed', 'token', 'at_ms', 'answer', 'location')
if not v[1] or #v[1] ~= #ARGV[1] then return {'foreign'} end
if v[1] ~= ARGV[1] then return {'mismatch'} end
if v[5] then return {'kept', v[5], v[6] or ''} end
local at = tonumber(v[4] or '')
if not (v[2] and v[3] and at) then return {'foreign'} end
if math.abs(now - at) < tonumber(ARGV[5]) then return {'pending'} end
redis.call('HSET', key, 'token', ARGV[3], 'at_ms', now)
redis.call('EXPIRE', key, ARGV[4])
return {'taken_over', v[2]}
""",
)

# Keep the answer, if the claim is still ours. KEYS: key. ARGV: token, answer, location, time to live (s). -> 1, or 0.
KEEP = Script(
    text="""
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'answer', ARGV[2], 'location', ARGV[3])
redis.call('HDEL', KEYS[1], 'seed', 'token', 'at_ms')
redis.call('EXPIRE', KEYS[1], ARGV[4])
return 1
""",
)

# Let go of a claim that is still ours: forget it, or leave it and its seed for whoever asks next, at once.
# KEYS: key. ARGV: token, forget (1 or 0). -> 1, or 0.
LET_GO = Script(
    text="""
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
if ARGV[2] == '1' then redis.call('DEL', KEYS[1]) else redis.call('HSET', KEYS[1], 'at_ms', 0) end
return 1
""",
)
