#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ptx2c.py [--seeds] FILE.ptx: the PTX that nvcc made of kernels, as C for fibers.h (a call for each CUDA thread).

Refuses what it does not know, and what is not exact (.approx, .ftz, .full): exactness is then proven, not hoped for.
With --seeds, rcp.approx.ftz.f64 is accepted, too, with which pow() begins: with fewer bits than a card's, since pow()
refines it."""
import re, sys

C = {'b8': 'uint8_t', 'u8': 'uint8_t', 's8': 'int8_t', 'b16': 'uint16_t', 'u16': 'uint16_t', 's16': 'int16_t',
     'b32': 'uint32_t', 'u32': 'uint32_t', 's32': 'int32_t', 'b64': 'uint64_t', 'u64': 'uint64_t', 's64': 'int64_t',
     'f32': 'float', 'f64': 'double', 'pred': 'unsigned char'}
SIZE = {t: int(t[1:]) // 8 for t in C if t != 'pred'}
SPECIAL = {'tid': 'tid', 'ntid': 'ntid', 'ctaid': 'ctaid', 'nctaid': 'nctaid'}
COMPARE = {'eq': '==', 'ne': '!=', 'lt': '<', 'le': '<=', 'gt': '>', 'ge': '>=', 'lo': '<', 'ls': '<=', 'hi': '>', 'hs': '>='}
has_seeds = sys.argv[1] == '--seeds'
text = open(sys.argv[-1]).read()
files = dict(re.findall(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', text, re.M))  # a name may have //
text = re.sub(r'^\s*\.file\s.*', '', text, flags=re.M)
text = re.sub(r'//.*', '', text)
text = re.sub(r'\.loc\s+(\d+)\s+(\d+).*', r'\n@line \1 \2;', text)  # nvcc -lineinfo: messages name the .cu
statement = ''
places = set()  # what a function has to pass arguments in

def die(why):
    sys.exit(f'ptx2c: {why}: {statement.strip()}')

shared, ranges, offset = {}, [], 0
for m in re.finditer(r'^\s*(\.extern\s+)?(?:\.visible\s+)?\.shared\s+\.align\s+(\d+)\s+\.(\w+)\s+([\w$]+)(?:\[(\d*)\])?;', text, re.M):
    if m[1]: sys.exit('ptx2c: dynamic shared memory')
    offset = -(-offset // int(m[2])) * int(m[2])
    shared[m[4]] = offset
    ranges.append((offset, offset + SIZE[m[3]] * int(m[5] or 1)))
    offset = ranges[-1][1] + 64  # what is beyond an array is not in the next one
static = -(-offset // 16) * 16

def reg(name):
    return name.strip().replace('%', 'R').replace('$', 'L')

def read(op, t, regs):
    op = op.strip()
    if op in regs:
        have, name = regs[op], reg(op)
        if t == 'pred' or have == 'pred':
            return name
        if (have[0] == 'f') != (t[0] == 'f'):
            if SIZE[have] != SIZE[t]: die('size')
            return f"{'ptx_u2f' if t == 'f32' else 'ptx_u2d' if t == 'f64' else '(%s)ptx_f2u' % C[t] if have == 'f32' else '(%s)ptx_d2u' % C[t]}({name})"
        return f'({C[t]}){name}'
    if op.startswith('%'):
        m = re.match(r'%(\w+)\.([xyz])$', op)
        if m and m[1] in SPECIAL: return f'({C[t]})fiber_self->{SPECIAL[m[1]]}.{m[2]}'
        die('register ' + op)
    if op[:2] in ('0f', '0F'): return f'ptx_u2f(0x{op[2:]}u)'
    if op[:2] in ('0d', '0D'): return f'ptx_u2d(0x{op[2:]}ull)'
    if re.match(r'-?\d|0x', op): return f'({C[t]})({op.rstrip("U")}ll)' if not op.startswith('-9223372036854775808') else 'INT64_MIN'
    if op in shared: return f'({C[t]}){shared[op]}u'
    die('operand ' + op)

def write(op, t, value, regs):
    op = op.strip()
    if op == '_': return f'(void)({value});'
    have = regs[op]
    if have != 'pred' and (have[0] == 'f') != (t[0] == 'f'):
        value = f"{'ptx_u2f' if have == 'f32' else 'ptx_u2d'}({value})" if have[0] == 'f' else f"ptx_{'f' if t == 'f32' else 'd'}2u({value})"
    return f'{reg(op)} = ({C[have]})({value});'

def address(op, space, regs, params, size):
    m = re.match(r'\[\s*([%\w$.]+?)\s*(?:\+\s*(-?\d+))?\s*\]$', op.strip())
    if not m: die('address')
    plus = int(m[2] or 0)
    if space == 'param' and m[1] in places:
        return f'({m[1]} + {plus})'
    if space == 'param':
        return f'((char *)arg + {params[m[1]] + plus})' if m[1] in params else f'((char *)(uintptr_t){reg(m[1])} + {plus})'
    if space == 'shared':
        base = f'{shared[m[1]]}u' if m[1] in shared else f'(uint32_t){reg(m[1])}'
        return f'ptx_shared({base} + ({plus}), {size})'
    return f'((char *)ptx_aligned((uint64_t){reg(m[1])} + ({plus}), {size}))'

def canon(value, t):  # a card returns one NaN, whatever the operands' payloads were
    return f'ptx_canon({value})' if t == 'f32' else value

def translate(s, regs, params):
    global statement
    statement = s
    m = re.match(r'(?:@(!?)(%\w+)\s+)?([\w.:]+)\s*(.*)$', s, re.S)
    guard = f'if ({m[1]}{reg(m[2])}) ' if m[2] else ''
    op, rest = m[3].split('.') if m else die('syntax'), m[4]
    args = [a.strip() for a in re.findall(r'\s*(\{[^}]*\}|\[[^\]]*\]|[^,]+)', rest) if a.strip()]
    if op == ['rcp', 'approx', 'ftz', 'f64'] and has_seeds:
        value, target = re.split(r',\s*', rest)[::-1]
        return guard + '{ ' + write(target, 'f64', f"ptx_seed({read(value, 'f64', regs)})", regs) + ' }'
    if op[0] == 'call' and not guard:
        m = re.match(r'\((\w+)\),\s*(\w+),\s*\(([^()]*)\)$', rest) or die('call')
        given = [a.strip() for a in m[3].split(',')]
        return '{ ' + f'_Alignas (16) char given_[{16 * len(given)}]; ' + ' '.join(
            f'memcpy (given_ + {16 * i}, {a}, 8);' for i, a in enumerate(given)) + f' of_{m[2]} ({m[1]}, given_); }}'
    if {'approx', 'ftz', 'full', 'sat'} & set(op): die('not exact')
    t, head = op[-1], op[0]
    r = lambda i, u=t: f'(uint64_t)((char *)arg + {params[args[i]]})' if args[i] in params else read(args[i], u, regs)
    w = lambda v, u=t, i=0: guard + '{ ' + write(args[i], u, v, regs) + ' }'
    wide = lambda u: {'16': '32', '32': '64'}[u[1:]]
    if head in ('ld', 'st'):
        # A pointer that was read from memory has a generic address; ptx_at() reports one that is not the device's.
        space = next((x for x in op if x in ('param', 'global', 'shared', 'const', 'local')), 'global')
        if space == 'local': die('local memory')
        vec = args[0 if head == 'ld' else 1].strip('{} ').split(',')
        a = address(args[1 if head == 'ld' else 0], space, regs, params, SIZE[t] * len(vec))
        out = []
        for i, v in enumerate(vec):
            place = f'*({C[t]} *)({a} + {i * SIZE[t]})'
            out.append(write(v, t, place, regs) if head == 'ld' else f'{place} = {read(v, t, regs)};')
        return guard + '{ ' + ' '.join(out) + ' }'
    if head == 'mov' and '{' in rest:
        half = 'b%d' % (SIZE[t] * 4)
        if args[0][0] == '{':
            lo, hi = args[0].strip('{}').split(',')
            return guard + f"{{ {C[t]} v_ = {r(1)}; {write(lo, half, f'({C[half]})v_', regs)} {write(hi, half, f'({C[half]})(v_ >> {SIZE[half] * 8})', regs)} }}"
        lo, hi = args[1].strip('{}').split(',')
        return w(f'({C[t]}){read(lo, half, regs)} | ({C[t]}){read(hi, half, regs)} << {SIZE[half] * 8}')
    if head == 'mov': return w(r(1))
    if head == 'cvta': return w(r(1, 'u64'), 'u64') if 'global' in op else die('cvta')
    if head in ('add', 'sub', 'mul', 'div', 'rem', 'and', 'or', 'xor') and 'wide' not in op and 'hi' not in op and 'cc' not in op:
        if t[0] == 'f' and 'rn' not in op and head == 'div': die('rounding')
        if t == 'pred': return w(f"{r(1)} {dict(zip(('and', 'or', 'xor'), '&|^'))[head]} {r(2)}")
        u = t if t[0] == 'f' or head in ('div', 'rem') else 'u' + t[1:]  # no signed overflow in C
        e = f"({C[u]})({r(1, u)} {dict(zip(('add', 'sub', 'mul', 'div', 'rem', 'and', 'or', 'xor'), '+-*/%&|^'))[head]} {r(2, u)})"
        return w(canon(e, u), u)
    if head == 'mul' and 'wide' in op:
        big = t[0] + wide(t)
        return w(f'({C[big]})({r(1)}) * ({C[big]})({r(2)})', big)
    if head == 'mad' and 'wide' in op:
        big = t[0] + wide(t)
        return w(f'({C[big]})({r(1)}) * ({C[big]})({r(2)}) + {r(3, big)}', big)
    if head == 'mad' and 'lo' in op: return w(f"{r(1, 'u' + t[1:])} * {r(2, 'u' + t[1:])} + {r(3, 'u' + t[1:])}", 'u' + t[1:])
    if head == 'fma': return w(canon(f"{'fmaf' if t == 'f32' else 'fma'}({r(1)}, {r(2)}, {r(3)})", t)) if 'rn' in op else die('rounding')
    if head == 'sqrt' and 'rn' in op: return w(canon(f"{'sqrtf' if t == 'f32' else 'sqrt'}({r(1)})", t))
    if head == 'rcp' and 'rn' in op: return w(canon(f'1 / {r(1)}', t))
    if head == 'neg': return w(f'-{r(1)}')
    if head == 'abs' and t[0] == 'f': return w(f"{'fabsf' if t == 'f32' else 'fabs'}({r(1)})")
    if head == 'not': return w(f"{'!' if t == 'pred' else '~'}{r(1)}")
    if head in ('min', 'max'):
        if t[0] == 'f': return w(f"f{head}{'f' if t == 'f32' else ''}({r(1)}, {r(2)})")  # as PTX: the one that is not NaN
        return w(f"{r(1)} {'<' if head == 'min' else '>'} {r(2)} ? {r(1)} : {r(2)}")
    if head in ('shl', 'shr'):
        bits, n = SIZE[t] * 8, r(2, 'u32')
        over = f"({r(1)} < 0 ? -1 : 0)" if head == 'shr' and t[0] == 's' else '0'
        return w(f"{n} >= {bits} ? ({C[t]}){over} : ({C[t]})({r(1)} {'<<' if head == 'shl' else '>>'} {n})")
    if head == 'setp':
        how, a, b = op[1], r(1), r(2)
        if how in ('num', 'nan'): e = f"{'!' if how == 'num' else ''}({a} != {a} || {b} != {b})"
        elif t[0] == 'f' and how == 'ne': e = f'({a} < {b} || {a} > {b})'
        elif t[0] == 'f' and how.endswith('u'): e = f'({a} != {a} || {b} != {b} || {a} {COMPARE[how[:-1]]} {b})'
        else: e = f'({a} {COMPARE[how]} {b})'
        if len(args) == 4:
            q = read(args[3].lstrip('!'), 'pred', regs)
            e = f"({e} {dict(zip(('and', 'or', 'xor'), '&|^'))[op[2]]} {'!' if args[3][0] == '!' else ''}{q})"
        return w(e, 'pred') if '|' not in args[0] else die('two results')
    if head == 'prmt' and op == ['prmt', 'b32']: return w(f"ptx_prmt({r(1)}, {r(2)}, {r(3)})")
    if head == 'selp': return w(f"{read(args[3], 'pred', regs)} ? {r(1)} : {r(2)}")
    if head == 'cvt':
        to, src = op[-2], op[-1]
        if to[0] in 'us' and src[0] == 'f':
            die('conversion to integer')
        whole = {'rzi': 'trunc', 'rni': 'rint', 'rmi': 'floor', 'rpi': 'ceil'}
        if op[1] in whole: return w(f"{whole[op[1]]}({r(1, src)})", to) if (to, src) == ('f64', 'f64') else die('type')
        if (to == 'f32' and src not in ('f32', 'bf16') or to == 'f64' and src in ('s64', 'u64')) and 'rn' not in op: die('rounding')
        if (to, src) == ('bf16', 'f32') and 'rn' in op and len(op) == 4: return w(f'ptx_bf16({r(1, src)})', 'b16')
        if (to, src) == ('f32', 'bf16'): return w(f"ptx_u2f((uint32_t){r(1, 'b16')} << 16)", 'f32')
        if to not in C or src not in C: die('type')
        if regs.get(args[0]) and to[0] != 'f' and SIZE[regs[args[0]]] > SIZE[to] and to[0] == 's':
            return w(f'(int{8 * SIZE[regs[args[0]]]}_t)({C[to]}){r(1, src)}', 's%d' % (8 * SIZE[regs[args[0]]]))
        return w(f'({C[to]}){r(1, src)}', to)
    if head == 'bra': return guard + f'goto {reg(args[0])};'
    if head in ('ret', 'exit'): return guard + 'return;'
    if head == 'trap': return guard + 'abort();'
    if head in ('bar', 'barrier'):
        return guard + 'fiber_barrier();' if args == ['0'] else die('barrier')
    if head in ('membar', 'fence'): return guard + '__atomic_thread_fence(__ATOMIC_SEQ_CST);'
    if head in ('atom', 'red'):
        k = 1 if head == 'atom' else 0
        space = next((x for x in op if x in ('global', 'shared')), None) or die('generic address')
        what = next(x for x in op if x in ('or', 'and', 'xor', 'add', 'exch', 'cas', 'min', 'max'))
        a, u = address(args[k], space, regs, params, SIZE[t]), t if t[0] == 'f' else 'u' + t[1:]
        v = read(args[k + 1], u, regs)
        if what in ('or', 'and', 'xor', 'add') and u[0] != 'f': e = f'__atomic_fetch_{what}(({C[u]} *)({a}), {v}, __ATOMIC_RELAXED)'
        elif what == 'exch': e = f'__atomic_exchange_n(({C[u]} *)({a}), {v}, __ATOMIC_RELAXED)'
        elif what == 'add' and u == 'f32': e = f'ptx_add_f32({a}, {v})'
        elif what in ('min', 'max'): e = f"ptx_{what}_{t}({a}, {v})"
        else: die('atomic')
        return w(e, u) if head == 'atom' else guard + f'(void){e};'
    die('unknown instruction')

print('''#include "tests/standin/cuda/fibers.h"
#include "tests/standin/cuda/ptx.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static inline float ptx_u2f (uint32_t u) { float f; memcpy (&f, &u, 4); return f; }
static inline uint32_t ptx_f2u (float f) { uint32_t u; memcpy (&u, &f, 4); return u; }
static inline float ptx_canon (float f) { return f != f ? ptx_u2f (0x7fffffffu) : f; }
static inline uint16_t ptx_bf16 (float f)
{
    uint32_t u = ptx_f2u (f);
    return f != f ? 0x7fff : (uint16_t) ((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
static inline double ptx_seed (double d)
{
    uint64_t u;
    d = 1 / d;
    memcpy (&u, &d, 8);
    u = d - d == 0 ? u & ~(uint64_t) 0xffffffff : u;
    memcpy (&d, &u, 8);
    return d;
}
/* A card ends a kernel for an access that is not aligned to its size. */
static inline void *ptx_aligned (uint64_t address, unsigned bytes)
{
    if (address % bytes) {
        fprintf (stderr, "standin: a kernel uses %u bytes at %#llx, which is not aligned to them\\n", bytes,
                 (unsigned long long) address);
        abort ();
    }
    return ptx_at (address, bytes);
}
/* Each digit of @how selects one of 8 bytes, or, from 8 on, its sign. */
static inline uint32_t ptx_prmt (uint32_t a, uint32_t b, uint32_t how)
{
    uint64_t both = (uint64_t) b << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++, how >>= 4) {
        uint8_t byte = (uint8_t) (both >> (how & 7) * 8);
        result |= (uint32_t) (how & 8 ? (byte >> 7) * 0xff : byte) << i * 8;
    }
    return result;
}
static inline double ptx_u2d (uint64_t u) { double f; memcpy (&f, &u, 8); return f; }
static inline uint64_t ptx_d2u (double f) { uint64_t u; memcpy (&u, &f, 8); return u; }
static inline float ptx_add_f32 (void *p, float v)
{
    uint32_t old = __atomic_load_n ((uint32_t *) p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n ((uint32_t *) p, &old, ptx_f2u (ptx_u2f (old) + v), 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return ptx_u2f (old);
}
#define KEEP(name, type, better) static inline type ptx_##name (void *p, type v) \\
{ type old = __atomic_load_n ((type *) p, __ATOMIC_RELAXED); \\
  while (v better old && !__atomic_compare_exchange_n ((type *) p, &old, v, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)); return old; }
KEEP (min_u32, uint32_t, <) KEEP (max_u32, uint32_t, >) KEEP (min_u64, uint64_t, <) KEEP (max_u64, uint64_t, >)
static char shared_key;''')
print(f'''static inline char *ptx_shared (uint32_t offset, unsigned bytes)
{{
    static const uint32_t ranges[][2] = {{ {', '.join('{ %d, %d }' % r for r in ranges + [(0, 0)])} }};
    unsigned i = 0;
    while (offset < ranges[i][0] || offset + bytes > ranges[i][1]) if (++i == {len(ranges) + 1}) ptx_bad_shared (offset);
    return (char *) fiber_shared (&shared_key, {static} + 1) + offset;
}}''')
BEGIN = r'(?:\.visible\s+\.entry\s+|\.func\s+\(\s*\.param\s+\.b64\s+(\w+)\s*\)\s*)(\w+)\s*\(([^()]*)\)\s*((?:\.\w+[^{;]*)?)'
for name in sorted(set(m[2] for m in re.finditer(BEGIN + '[{;]', text) if m[1])):
    print(f'static void of_{name} (char *result, void *arg);')
for m in re.finditer(BEGIN + r'\{(.*?)^\}', text, re.S | re.M):
    result, name, params, sizes, place = m[1], m[2], {}, [], 0
    places.clear()
    if result: places.add('result')
    for p in re.finditer(r'\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(?:\.ptr\s+(?:\.\w+\s+)*?(?:\.align\s+\d+\s+)?)?(\w+)(?:\[(\d+)\])?', m[3]):
        size = SIZE[p[1]] * int(p[3] or 1)
        params[p[2]] = place
        sizes.append(size)
        place += -(-size // 16) * 16
    regs, body = {}, []
    for s in re.split(r';|(?<=:)\s*\n|[{](?=\s*\n)|\n\s*[}]', m[5].replace(f'[{result}+', '[result+') if result else m[5]):
        s = s.strip()
        statement = s
        if not s or s in '{}' or s.startswith(('.pragma', '.shared')): continue
        if s.startswith('@line'):
            _, f, l = s.split()
            body.append(f'#line {l} "{files[f]}"')
            continue
        s = s.lstrip('{ \n\t}')  # inline assembly
        if not s: continue
        d = re.match(r'\.param\s+\.b64\s+(\w+)$', s)
        if d:
            places.add(d[1])
            continue
        d = re.match(r'\.reg\s+\.(\w+)\s+(%?\w+)$', s)  # a name of its own, in inline assembly
        if d:
            regs[d[2]] = d[1]
            continue
        d = re.match(r'\.reg\s+\.(\w+)\s+(%\w+)<(\d+)>$', s)
        if d:
            t = d[1] if d[1][0] != 'b' or d[1] in C else die('register type')
            regs.update({f'{d[2]}{i}': t for i in range(int(d[3]))})
        elif re.match(r'[$\w]+:$', s): body.append(reg(s) + ';')
        else:
            try: body.append('    ' + translate(s, regs, params))
            except (KeyError, ValueError, IndexError, TypeError): die('not translated')
    if result:
        print(f'static void of_{name} (char *result, void *arg)\n{{')
    else:
        print(f'const unsigned short ptx_{name}_sizes[] = {{{", ".join(map(str, sizes + [0]))}}};')
        print(f'void ptx_{name} (void *arg)\n{{')
    for made in sorted(places - {'result'}):
        print(f'    _Alignas (8) char {made}[8];')
    used = set(re.findall(r'\w+', '\n'.join(body)))
    for t in sorted(set(regs.values())):
        names = [reg(r) + ' = 0' for r in regs if regs[r] == t and reg(r) in used]
        if names: print(f'    {C[t]} {", ".join(names)};')
    print('    (void) arg;\n' + '\n'.join(body) + '\n}')
