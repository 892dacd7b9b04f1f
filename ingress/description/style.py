"""How the page of the description looks, and what a browser may load for it: nothing but this. Pure."""

import base64
import hashlib
from typing import Final

STYLE: Final = """
:root{--back:#fff;--ink:#1b1f24;--quiet:#59636e;--line:#d8dee4;--soft:#f4f6f8;--link:#0a58ca;
--get:#1a6b3c;--post:#0a58ca;--delete:#b42318;--warn:#8a4b08}
@media (prefers-color-scheme:dark){:root{--back:#14171b;--ink:#e3e7ec;--quiet:#9aa5b1;--line:#343b44;--soft:#1d2228;
--link:#7ab7ff;--get:#66cf95;--post:#7ab7ff;--delete:#ff8d82;--warn:#f0b072}}
*{box-sizing:border-box}
html{scroll-padding-top:1rem}
body{margin:0;display:grid;grid-template-columns:17rem minmax(0,1fr);background:var(--back);color:var(--ink);
font:16px/1.55 system-ui,sans-serif}
a{color:var(--link)}
nav{position:sticky;top:0;height:100vh;overflow-y:auto;padding:1.5rem 1rem 1.5rem 1.5rem;
border-right:1px solid var(--line);font-size:.875rem}
nav ul{list-style:none;margin:0 0 1rem;padding:0}
nav li a{display:flex;gap:.5rem;padding:.2rem 0;color:inherit;text-decoration:none}
nav li:has(b)+li:not(:has(b)){margin-top:.75rem}
nav li a:hover{text-decoration:underline}
nav li b{flex:none;width:3.6rem;font-size:.75rem;line-height:1.35rem}
.brand{margin:0 0 1rem;font-size:1.15rem;font-weight:700}
.brand a{color:inherit;text-decoration:none}
main{padding:1.5rem 2.5rem 4rem;max-width:64rem}
h1{margin:0;font-size:2rem;line-height:1.2}
h1 small{font-size:1rem;font-weight:400;color:var(--quiet)}
h2{margin:3rem 0 .25rem;font-size:1.45rem}
h3{margin:0 0 .5rem;font-size:1.1rem;line-height:1.4}
h4{margin:1.5rem 0 .5rem;font-size:.95rem}
p{margin:.5rem 0;max-width:48rem}
.lead{font-size:1.05rem}
.call{margin:1.5rem 0;padding:1.25rem 1.5rem;border:1px solid var(--line);border-radius:.5rem}
section:not(.call){margin:1.75rem 0}
section:target,tr:has(:target){outline:2px solid var(--link);outline-offset:.4rem}
.get{color:var(--get)}.post{color:var(--post)}.delete{color:var(--delete)}
.s2{color:var(--get)}.s3{color:var(--quiet)}.s4{color:var(--warn)}.s5{color:var(--delete)}
.quiet{color:var(--quiet);font-size:.875rem}
.mark{margin-left:.5rem;padding:.05rem .5rem;border:1px solid var(--line);border-radius:1rem;font-size:.75rem;
white-space:nowrap}
.mark a{color:var(--quiet);text-decoration:none}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
code{font-size:.85em;overflow-wrap:anywhere}
pre{margin:.75rem 0;padding:.75rem 1rem;overflow-x:auto;background:var(--soft);border-radius:.375rem;
font-size:.85rem;line-height:1.5}
pre code{font-size:inherit;overflow-wrap:normal}
details{margin:.4rem 0}
summary{cursor:pointer}
table{width:100%;border-collapse:collapse;font-size:.9rem}
th,td{padding:.5rem .75rem .5rem 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th{font-weight:600;color:var(--quiet)}
td:first-child,td[data-head="Header fields"]{white-space:nowrap}
@media (max-width:52rem){
body{display:block}
nav{position:static;height:auto;padding:1rem;border-right:0;border-bottom:1px solid var(--line)}
main{padding:1rem 1rem 3rem}
.call{padding:1rem}
table,tbody,tr,td{display:block;width:100%}
thead{display:none}
tr{padding:.5rem 0;border-bottom:1px solid var(--line)}
td,td:first-child,td[data-head="Header fields"]{padding:.1rem 0;border:0;white-space:normal}
td:empty{display:none}
td[data-head="Header fields"] br{display:none}
td[data-head="Header fields"] a{margin-right:.5rem}
}
@media print{nav{display:none}body{display:block}}
"""

_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        f"style-src 'sha256-{_HASH}'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
