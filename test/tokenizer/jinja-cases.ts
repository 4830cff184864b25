// Templates and what Python's Jinja makes of them, in the environment of chat templates: each asks for one thing that
// an engine can get wrong without anybody noticing. All of them get CONTEXT.

import { parseExactJson } from '../../src/util/exact-json.ts';

export const CONTEXT = {
  given: parseExactJson(
    '{"big": 12345678901234567890, "least": -12345678901234567891, "one": 1.0, "far": 1e20, "zero": -0.0, "safe": 9007199254740991}',
  ),
  text: ' 😀naïve ',
  users: [
    { name: 'bo', age: 3, tags: ['x'] },
    { name: 'Al', age: null, tags: [] },
    { name: 'cy', age: 3, tags: ['y', 'z'] },
  ],
  schema: { type: 'object', items: { a: 1 }, ratio: 0.5, none: null, ok: true, quote: 'it\'s "é"\n' },
  numbers: [3, 1, 2],
  nothing: null,
};

/** What is asked for, the template, what it prints. */
export const CASES: readonly (readonly [string, string, string])[] = [
  [
    'None, True and False by their Python names',
    '{{ none }} {{ true }} {{ nothing }} {{ [false] }}',
    'None True None [False]',
  ],
  [
    'lists and dicts as Python writes them',
    '{{ schema }}',
    `{'type': 'object', 'items': {'a': 1}, 'ratio': 0.5, 'none': None, 'ok': True, 'quote': 'it\\'s "é"\\n'}`,
  ],
  [
    'numbers as JSON has them',
    '{{ given }} {{ given | tojson }}',
    "{'big': 12345678901234567890, 'least': -12345678901234567891, 'one': 1.0, 'far': 1e+20, 'zero': -0.0, 'safe': 9007199254740991} " +
      '{"big": 12345678901234567890, "least": -12345678901234567891, "one": 1.0, "far": 1e+20, "zero": -0.0, "safe": 9007199254740991}',
  ],
  [
    'sums and products of whole numbers of any size',
    '{{ given.big + 1 }} {{ given.big - given.least }} {{ given.big * 2 }} {{ -given.big }} {{ 2 ** 70 }} {{ given.safe + 2 }} {{ given.big - given.big }}',
    '12345678901234567891 24691357802469135781 24691357802469135780 -12345678901234567890 1180591620717411303424 9007199254740993 0',
  ],
  [
    'quotients and remainders of whole numbers of any size',
    '{{ given.big // 7 }} {{ given.least // 7 }} {{ given.big % 7 }} {{ given.least % 7 }} {{ given.big % -7 }} {{ given.big / 2 }}',
    '1763668414462081127 -1763668414462081128 1 5 -6 6.172839450617284e+18',
  ],
  [
    'the order of whole numbers of any size',
    '{{ given.big == given.big + 1 }} {{ given.big < given.big + 1 }} {{ given.big > 1.5 }} {{ [given.big, given.least, 3, given.one] | sort }} {{ {given.big: 1}[given.big] }} {{ given.big in [1, given.big] }}',
    'False True True [-12345678901234567891, 1.0, 3, 12345678901234567890] 1 True',
  ],
  [
    'tests of whole numbers and floats',
    '{{ given.big is integer }} {{ given.big is float }} {{ given.one is float }} {{ given.one is integer }} {{ given.big is even }} {{ given.big is divisibleby 7 }}',
    'True False True False True False',
  ],
  [
    'filters on whole numbers of any size',
    "{{ '12345678901234567890' | int }} {{ given.far | int }} {{ given.least | abs }} {{ [given.big, 1] | sum }} {{ given.big | round }} {{ 12 | round(-1) }}",
    '12345678901234567890 100000000000000000000 12345678901234567891 12345678901234567891 12345678901234567890 10',
  ],
  [
    'formats of whole numbers of any size',
    "{{ '%d' % given.big }} {{ '%x' % given.big }} {{ '{:d}'.format(given.least) }} {{ '%5.1f' % given.one }} {{ 1234567890123456789012 }}",
    '12345678901234567890 ab54a98ceb1f0ad2 -12345678901234567891   1.0 1234567890123456789012',
  ],
  ['tuples', "{{ (1, 'a') }} {{ (1,) }} {{ () }}", "(1, 'a') (1,) ()"],
  [
    'floats',
    '{{ 7 / 2 }} {{ 4 / 2 }} {{ 1e16 }} {{ 0.00001 }} {{ 2.50 }} {{ 1.0 | tojson }}',
    '3.5 2.0 1e+16 1e-05 2.5 1.0',
  ],
  [
    'division and remainder of negative numbers',
    '{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 3 ** 2 }} {{ 2 ** -1 }}',
    '-4 2 -2 64 0.5',
  ],
  [
    'equality without conversion',
    "{{ 1 == '1' }} {{ 1 == 1.0 }} {{ 0 == false }} {{ '' == none }} {{ [1] == [1] }} {{ (1,) == [1] }}",
    'False True True False True False',
  ],
  ['comparisons in a chain', '{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 3 in [1] == false }}', 'True False False'],
  ['a sign that binds tighter than a filter', '{{ -1 | abs }} {{ - numbers[0] }} {{ 1 - -1 }}', '1 -3 2'],
  ['texts side by side and ~', "{{ 'a' 'b' ~ 1 ~ none ~ unknown }}", 'ab1None'],
  ['escapes in texts', String.raw`{{ '\x41\u00e9\U0001F600\d\'\101' }}`, "Aé😀\\d'A"],
  [
    'integer keys',
    '{% set sizes = {0: "none", 512: "some"} %}{{ sizes[512] }} {{ sizes.get(7, "?") }} {{ sizes }}',
    "some ? {0: 'none', 512: 'some'}",
  ],
  [
    'a key before a method in brackets, a method before a key behind a point',
    "{{ schema['items'] }} {{ schema.items() | list | length }}",
    "{'a': 1} 6",
  ],
  [
    'what has no such attribute',
    "{{ schema.nope }}|{{ nothing.nope }}|{{ schema['nope'] is defined }}|{{ unknown is undefined }}",
    '||False|True',
  ],
  [
    'indices and slices by characters',
    '{{ text[1] }}{{ text[-2] }}{{ text | length }} {{ text[1:4] }} {{ text[::-1] }} {{ numbers[5:] }} {{ numbers[::-2] }}',
    '😀e8 😀na  evïan😀  [] [2, 3]',
  ],
  ['texts that are looped over', '{% for c in "añ😀" %}<{{ c }}>{% endfor %}', '<a><ñ><😀>'],
  [
    'stripping of given characters',
    String.raw`{{ '\n\nab\n'.lstrip('\n') | tojson }}{{ 'xxaxx'.strip('x') }}{{ 'abc'.rstrip('bc') }}{{ '--a' | trim('-') }}`,
    '"ab\\n"aaa',
  ],
  [
    'splitting',
    "{{ 'a,b,c'.split(',', 1) }} {{ ' a  b '.split() }} {{ 'a,b,c'.rsplit(',', 1) }} {{ 'a\nb\n'.splitlines() }} {{ 'a=b=c'.partition('=') }}",
    "['a', 'b,c'] ['a', 'b'] ['a,b', 'c'] ['a', 'b'] ('a', '=', 'b=c')",
  ],
  [
    'searching',
    "{{ 'hello'.find('l') }} {{ 'hello'.rfind('l') }} {{ 'hello'.find('z') }} {{ 'hello'.count('l') }} {{ 'hello'.startswith(('he', 'x')) }} {{ 'hello'.endswith('lo') }}",
    '2 3 -1 2 True True',
  ],
  [
    'cases of letters',
    "{{ 'hELLO wORLD'.title() }} {{ 'hELLO w'.capitalize() }} {{ \"it's a-b\" | title }} {{ 'aB'.swapcase() }}",
    "Hello World Hello w It's A-B Ab",
  ],
  [
    'questions about characters',
    "{{ '12'.isdigit() }} {{ 'a1'.isalpha() }} {{ ''.isdigit() }} {{ ' '.isspace() }} {{ 'AB'.isupper() }}",
    'True False False True True',
  ],
  [
    'padding and replacing',
    "{{ '7'.zfill(3) }} {{ 'a'.center(4, '*') }} {{ 'a'.rjust(2) }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'ab'.replace('', '-') }} {{ 'xab'.removeprefix('x') }}",
    '007 *a**  a bba -a-b- ab',
  ],
  [
    'formats',
    "{{ '%s=%05.1f %d%%' % ('a', 2.26, 7) }} {{ '%s-%s' | format(1, none) }} {{ '{} {1} {n}'.format('a', 'b', n=3) if false else '{0}{n}'.format('a', n=3) }}",
    'a=002.3 7% 1-None a3',
  ],
  [
    'JSON with the separators of Python',
    '{{ schema | tojson }}',
    '{"type": "object", "items": {"a": 1}, "ratio": 0.5, "none": null, "ok": true, "quote": "it\'s \\"é\\"\\n"}',
  ],
  [
    'JSON with options',
    '{{ {"b": [1, {}], "a": "é"} | tojson(indent=2, sort_keys=true, ensure_ascii=true) }}|{{ [1, 2] | tojson(separators=(",", ":")) }}',
    '{\n  "a": "\\u00e9",\n  "b": [\n    1,\n    {}\n  ]\n}|[1,2]',
  ],
  [
    'names set in a loop, which end with the round',
    '{% for n in numbers %}{{ seen is defined }}{% set seen = n %}{% endfor %}{{ seen is defined }}',
    'FalseFalseFalseFalse',
  ],
  [
    'names set in a loop beside those of the same name outside',
    "{% set x = 'a' %}{% for n in [1, 2] %}{{ x }}{% set x = x ~ n %}{{ x }} {% endfor %}{{ x }}",
    'aa1 aa2 a',
  ],
  ['names set in if, which stay', '{% if true %}{% set x = 1 %}{% endif %}{{ x }}', '1'],
  [
    'namespaces',
    '{% set ns = namespace(n=0, last=none) %}{% for i in numbers %}{% set ns.n = ns.n + i %}{% set ns.last = i %}{% endfor %}{{ ns.n }} {{ ns.last }}',
    '6 2',
  ],
  [
    'what a loop knows',
    '{% for n in numbers %}{{ loop.index }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle("a", "b") }} {% endfor %}',
    '12True1a 21False32b 30False1a ',
  ],
  [
    'loops with a test, an else, break and continue',
    '{% for n in numbers if n > 1 %}{{ n }}{{ loop.length }}{% else %}-{% endfor %}{% for n in [] %}{% else %}none{% endfor %}{% for n in [1, 2, 3, 4] %}{% if n == 2 %}{% continue %}{% endif %}{% if n == 4 %}{% break %}{% endif %}{{ n }}{% endfor %}',
    '3222none13',
  ],
  [
    'recursive loops',
    "{% for n in [[1, [2]], [3]] recursive %}{{ n if n is number else '(' ~ loop(n) ~ ')' }}{% endfor %}",
    '(1(2))(3)',
  ],
  [
    'unpacking',
    '{% for k, v in {"a": (1, 2)}.items() %}{{ k }}{{ v[1] }}{% endfor %}{% set a, (b, c) = 1, [2, 3] %}{{ a }}{{ b }}{{ c }}',
    'a2123',
  ],
  [
    'macros with defaults, call blocks and names of where they are written',
    "{% set mark = '!' %}{% macro hi(name, end=mark) %}{{ name }}{{ end }}{{ caller() if caller }}{% endmacro %}{% for mark in ['?'] %}{{ hi('a') }}{{ hi(name='b', end='') }}{% call hi('c') %}<{{ mark }}>{% endcall %}{% endfor %}",
    'a!bc!<?>',
  ],
  [
    'macros that take more',
    '{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}',
    "1(2,){'x': 3}",
  ],
  [
    'blocks that are captured or filtered',
    '{% set x %} a {% endset %}[{{ x }}]{% set y | upper %}b{% endset %}{{ y }}{% filter trim %} c {% endfilter %}{% with d = 1 %}{{ d }}{% endwith %}{{ d is defined }}',
    '[ a ]Bc1False',
  ],
  ['raw text', '{% raw %}{{ not }} {% if %}{% endraw %}|{{ 1 }}', '{{ not }} {% if %}|1'],
  [
    'dropped line breaks and blanks around tags',
    'a\n  {% if true %}\n  b\n  {% endif %}\n  {# note #}\nc {{ 1 }}\nd  {%+ if true %}\n{% endif %}',
    'a\n  b\nc 1\nd  ',
  ],
  [
    'signs that keep and drop blanks',
    'a {{- 1 -}} b {% if true -%} c {%- endif %} d\n  {%+ if true %}e{% endif +%}\nf',
    'a1b c d\n  e\nf',
  ],
  ['a dict inside an output', '{{ {"a": {"b": 1}}["a"]["b"] }}{{ {} }}', '1{}'],
  [
    'tests with and without parentheses',
    "{{ 4 is divisibleby 2 }} {{ 1 is in [1] }} {{ 'a' is eq('a') }} {{ 2 is not odd }} {{ true is number }} {{ true is integer }} {{ {} is mapping }} {{ nothing is none }} {{ 'a' is string and 1 is not string }}",
    'True True True True True False True True True',
  ],
  [
    'select and map',
    "{{ users | map(attribute='name') | join(',') }} {{ users | selectattr('age') | map(attribute='name') | list }} {{ users | rejectattr('name', 'in', ['bo']) | list | length }} {{ numbers | select('>', 1) | list }} {{ [' a '] | map('trim') | first }}",
    "bo,Al,cy ['bo', 'cy'] 2 [3, 2] a",
  ],
  [
    'a filtered sequence, which is true and is read once',
    "{% set found = numbers | select('>', 9) %}{{ 'yes' if found }}{% set some = numbers | select('>', 1) %}{{ some | list }}{{ some | list }}",
    'yes[3, 2][]',
  ],
  [
    'sorting, grouping and the like',
    "{{ users | sort(attribute='name') | map(attribute='name') | list }} {{ numbers | sort(reverse=true) }} {{ ['b', 'A'] | sort }} {{ {'b': 1, 'A': 2} | dictsort }} {{ ['a', 'A', 'b'] | unique | list }} {{ numbers | sum }} {{ numbers | max }}",
    "['Al', 'bo', 'cy'] [3, 2, 1] ['A', 'b'] [('A', 2), ('b', 1)] ['a', 'b'] 6 3",
  ],
  [
    'groups',
    "{% for age, group in users | groupby('age.x', default=0) %}{{ age }}{{ group | length }}{% endfor %} {% for size, group in ['a', 'bb', 'c'] | groupby('0') %}{{ size }}{{ group }}{% endfor %}",
    "03 a['a']b['bb']c['c']",
  ],
  [
    'batches and slices',
    '{{ [1, 2, 3] | batch(2, 0) | list }} {{ [1, 2, 3] | slice(2) | list }}',
    '[[1, 2], [3, 0]] [[1, 2], [3]]',
  ],
  [
    'numbers from texts',
    "{{ '7' | int }} {{ 'x' | int(-1) }} {{ '3.9' | int }} {{ '1e3' | float }} {{ 2.5 | round }} {{ 2.45 | round(1, 'floor') }} {{ true | int }}",
    '7 -1 3 1000.0 2.0 2.4 1',
  ],
  [
    'defaults',
    "{{ unknown | default('a') }}{{ '' | default('b') }}{{ '' | default('c', true) }}{{ nothing | d('d') }}",
    'acNone',
  ],
  [
    'indentation',
    "{{ 'a\n\nb' | indent }}|{{ 'a\nb' | indent(2, first=true) }}|{{ 'a\nb' | indent('> ') }}",
    'a\n\n    b|  a\n  b|a\n> b',
  ],
  [
    'the rest of the filters',
    "{{ '<a>' | e }} {{ 'a b c d' | truncate(5, leeway=0) }} {{ 'a b' | wordcount }} {{ 'a b/é' | urlencode }} {{ 'ab' | reverse }} {{ [1, 2] | last }}",
    '&lt;a&gt; a... 2 a%20b/%C3%A9 ba 2',
  ],
  [
    'joiners and dicts made by hand',
    "{% set comma = joiner('; ') %}{% for n in numbers %}{{ comma() }}{{ n }}{% endfor %} {{ dict(a=1) }} {{ range(5, 0, -2) | list }}",
    "3; 1; 2 {'a': 1} [5, 3, 1]",
  ],
  ['the marks around what was generated', 'a{% generation %}b{% endgeneration %}c', 'abc'],
  ['conditions without else', "{{ 'a' if false }}{{ 1 if true else 2 if true else 3 }}", '1'],
  ['an unknown filter that is never reached', '{% if false %}{{ 1 | nope }}{% endif %}ok', 'ok'],
  [
    'attributes by number and path',
    "{{ [[1, 2]].0.1 }} {{ users | map(attribute='tags.0', default='-') | list }}",
    "2 ['x', '-', 'y']",
  ],
  [
    'a default where the path ends early',
    "{{ users | map(attribute='address.city', default='-') | join }} {{ users | groupby('a.b', default=1) | length }} {{ users | map(attribute='a', default=none) | first is undefined }}",
    '--- 1 True',
  ],
  [
    'indentation of lines that end otherwise',
    String.raw`{{ 'a\r\nb\u2028c\r' | indent(1) | tojson }}{{ '' | indent(1, true) }}|`,
    '"a\\n b\\n c" |',
  ],
  [
    'None, false and nothing that are selected from and mapped',
    "{{ nothing | selectattr('a') | list }}{{ nothing | reject('none') | list }}{{ nothing | map(attribute='a') | list }}{{ false | select | list }}{{ unknown | map('upper') | list }}",
    '[][][][][]',
  ],
  [
    'what is undefined as a key, which no dict has',
    "{{ schema.get(unknown, 'none') }} {{ unknown in schema }} {{ unknown not in schema }} {{ schema.get(schema.nope) }}",
    'none False True None',
  ],
  ['a format that cuts by characters', "{{ '%.2s|%.3r' % (text, '😀😀😀') }}", " 😀|'😀😀"],
  [
    'names of a with block, which do not see each other',
    '{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}',
    '211',
  ],
  [
    'words and slices counted, and addresses quoted, as in Python',
    "{{ 'naïve été' | wordcount }} {{ [1, 2] | slice(2, 0) | list }} {{ \"it's (a)*!\" | urlencode }}",
    '2 [[1, 0], [2, 0]] it%27s%20%28a%29%2A%21',
  ],
  [
    'the else of loops of which no round comes to its end',
    '{% for n in numbers %}{% continue %}{% else %}none{% endfor %}{% for n in numbers %}{% break %}{% else %} left{% endfor %}{% for n in numbers %}{% if n == 3 %}{% continue %}{% endif %}{% else %}no{% endfor %}',
    'none left',
  ],
  [
    'defaults of macros, which see all arguments and no names outside that parameters hide',
    "{% set b = 'outer' %}{% macro m(a=b, b='-') %}{{ a }}{{ b }}{% endmacro %}{{ m(b=2) }} {{ m() }} {{ m(none) }}",
    '22 - None-',
  ],
  [
    'formats that round a half to the even digit',
    "{{ '%.0f %.0f %.0f %.0f %.2f %.2f %.1f' % (0.5, 1.5, 2.5, 9.5, 0.125, 0.375, 0.15) }}",
    '0 2 2 10 0.12 0.38 0.1',
  ],
  [
    'exponents that do',
    "{{ '%.0e %.0e %.1e %.3e %e' % (2.5, 9.5, 1.25, 12345.5, 0) }}",
    '2e+00 1e+01 1.2e+00 1.235e+04 0.000000e+00',
  ],
  [
    'the shorter one of two formats',
    "{{ '%g %g %g %g %g %.3g %g %G' % (0.0001, 0.00001, 100000, 1000000, 1234565, 2.5, 1e100, 1e-7) }}|{{ '%.2g' % 0.00015 }}|{{ '%g' % 3 }}|{{ '%.0g' % 25 }}",
    '0.0001 1e-05 100000 1e+06 1.23456e+06 2.5 1e+100 1E-07|0.00015|3|2e+01',
  ],
  [
    'formats of numbers of any size, and of characters',
    "{{ '%f %.3f %.1f' % (1e21, 1e22, -0.0) }}|{{ '%c%c%c' % ('é', 65, 128512) }}|{{ '%i %u %F %E' % (3, 4, 1.5, 1.5) }}",
    '1000000000000000000000.000000 10000000000000000000000.000 -0.0|éA😀|3 4 1.500000 1.500000E+00',
  ],
  [
    'alignment by a filling',
    "{{ '{:>6}|{:<6}|{:^7}|{:*^8}|{:6}|{:6}|{:.2}'.format('ab', 'ab', 'ab', '😀b', 'ab', 42, 'abc') }}",
    '    ab|ab    |  ab   |***😀b***|ab    |    42|ab',
  ],
  [
    'numbers with signs, zeros, thousands and percents',
    "{{ '{:+d} {: d} {:05d} {:=+6d} {:x<5d} {:>08.3f} {:,} {:,.2f} {:.1%} {:e} {:g} {:x} {:X} {:b} {:o}'.format(3, 4, -42, 7, 5, 3.14159, 1234567, 9876543.215, 0.125, 12345.678, 0.0001, 255, 255, 5, 8) }}",
    '+3  4 -0042 +    7 5xxxx 0003.142 1,234,567 9,876,543.21 12.5% 1.234568e+04 0.0001 ff FF 101 10',
  ],
  [
    'floats as they print, bools as numbers',
    "{{ '{:8}|{:<8}|{:+}|{:5}|{:05}'.format(2.5, 2.5, 2.5, true, 'ab') }}",
    '     2.5|2.5     |+2.5|    1|ab000',
  ],
  [
    'conversions before a format',
    "{{ '{0!r} {0!s} {!r:>6} {n!r}'.format('a', n='b') if false else '{0!r} {0!s} {1!r:>6} {n!r}'.format('a', 'c', n=none) }}",
    "'a' a    'c' None",
  ],
  [
    'values that take turns',
    "{% set c = cycler('odd', 'even', 3) %}{{ c.current }} {{ c.next() }} {{ c.next() }} {{ c.next() }} {{ c.next() }} {{ c.current }}{{ c.reset() }} {{ c.next() }}",
    'odd odd even 3 odd evenNone odd',
  ],
];

/** What is refused, the template, and the words of it. */
export const FAILURES: readonly (readonly [string, string, RegExp])[] = [
  ['a text and a number to add', "{{ 'a' + 1 }}", /can only concatenate str \(not "int"\) to str/],
  ['an attribute of nothing', '{{ unknown.a }}', /'unknown' is undefined/],
  ['nothing to be added', '{{ unknown + 1 }}', /'unknown' is undefined/],
  ['None to be looped over', '{% for x in nothing %}{% endfor %}', /'NoneType' object is not iterable/],
  ['None to be searched', "{{ 'a' in nothing }}", /'NoneType' object is not iterable/],
  ['a method that changes a list', '{{ numbers.append(1) }}', /has no attribute 'append'/],
  ['a length of None', '{{ nothing | length }}', /object of type 'NoneType' has no len\(\)/],
  ['an order of different types', "{{ 1 < 'a' }}", /'<' not supported between instances of 'int' and 'str'/],
  ['JSON of nothing', '{{ unknown | tojson }}', /Undefined is not JSON serializable/],
  [
    'a field of what is no namespace',
    '{% set schema.a = 1 %}',
    /cannot assign attribute on non-namespace object/,
  ],
  ['a division by zero', '{{ 1 // 0 }}', /division by zero/],
  ['too few values to unpack', '{% for a, b in [[1]] %}{% endfor %}', /not enough values to unpack/],
  ['a cycler of nothing', '{{ cycler() }}', /at least one value/],
  ['a character that is none', "{{ '%c' % 1114112 }}", /%c requires an int in range\(0x110000\)/],
  [
    'a format of None',
    "{{ '{:>6}'.format(nothing) }}",
    /unsupported format string passed to NoneType.__format__/,
  ],
  ['a format of texts for a number', "{{ '{:d}'.format('a') }}", /format \{:d\} is not served/],
  ['the format of a kind that is none', "{{ '%y' % 1 }}", /format %y is not served/],
  ['a field of a field', "{{ '{a.b}'.format(a=schema) }}", /field \{a\.b\} of format\(\) is not served/],
  [
    'another conversion',
    "{{ '{!a}'.format(1) }}",
    /conversion !a of format\(\) is not served; !s and !r are/,
  ],
];
