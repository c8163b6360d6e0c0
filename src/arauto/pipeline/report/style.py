"""The report's looks: light and dark, screen and paper, wide and narrow. Data."""

__all__ = ["STYLE"]

STYLE = """
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#171c26;--soft:#5b6577;--rule:#e3e7ee;
--c1:#3f5bd8;--c2:#0f9488;--c3:#c2750a;--c4:#c03a63;--good:#0b7a4b;--bad:#b3261e;--heat:63,91,216}
@media(prefers-color-scheme:dark){:root{--bg:#0f131a;--card:#171c26;--ink:#e8ecf4;--soft:#9aa5b8;
--rule:#2a3140;--c1:#8ea2ff;--c2:#3fd0bf;--c3:#f0ad4e;--c4:#f288a8;--good:#4cd197;--bad:#ff8a80;
--heat:142,162,255}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Noto Sans","DejaVu Sans",sans-serif;-webkit-text-size-adjust:100%}
main{max-width:1120px;margin:0 auto;padding:32px 20px 48px}
header h1{font-size:30px;line-height:1.2;margin:0 0 4px;letter-spacing:-.02em}
header p{margin:0;color:var(--soft)}
.lead{font-size:18px;line-height:1.55;max-width:75ch;margin:20px 0 28px;color:var(--ink)}
nav{margin:14px 0 0;font-size:14px;display:flex;flex-wrap:wrap;gap:2px 16px}
nav a{color:var(--c1);text-decoration:none}
nav a:hover{text-decoration:underline}
.cards{display:grid;grid-template-columns:repeat(4,1fr);gap:14px;margin:0 0 14px;padding:0;list-style:none}
.card,section{background:var(--card);border:1px solid var(--rule);border-radius:12px}
.card{padding:14px 16px 0;overflow:hidden;display:flex;flex-direction:column}
.card h2{font-size:13px;font-weight:500;color:var(--soft);margin:0}
.card .value{font-size:26px;font-weight:650;letter-spacing:-.02em;line-height:1.3;margin:0;
font-variant-numeric:tabular-nums}
.card .delta{font-size:13px;margin:0 0 10px;color:var(--soft)}
.good{color:var(--good)}.bad{color:var(--bad)}
.card .spark{display:block;width:calc(100% + 32px);margin:auto -16px 0;height:34px}
section{padding:20px 22px 22px;margin:14px 0 0;break-inside:avoid}
section>h2{font-size:19px;margin:0 0 2px;letter-spacing:-.01em}
section>.note{color:var(--soft);font-size:14px;margin:0 0 14px;max-width:80ch}
h3{font-size:14px;font-weight:600;margin:18px 0 8px}
.two{display:grid;grid-template-columns:1fr 1fr;gap:14px;margin-top:14px}
.two section{margin:0}
.inner{display:grid;grid-template-columns:1fr 1fr;gap:8px 28px}
.inner>*{min-width:0}
.legend{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;padding:0;margin:0 0 6px;font-size:13px;
color:var(--soft)}
.legend li::before{content:"";display:inline-block;width:14px;height:3px;border-radius:2px;margin:0 7px 3px 0;
vertical-align:middle;background:currentColor}
.legend .c1::before{background:var(--c1)}.legend .c2::before{background:var(--c2)}
.legend .c3::before{background:var(--c3)}.legend .c4::before{background:var(--c4)}
.chart{padding:8px 6px 0 64px}
.plot{position:relative;height:210px}
.plot svg{position:absolute;inset:0;width:100%;height:100%;overflow:visible}
.y{position:absolute;right:100%;margin-right:8px;transform:translateY(50%);font-size:12px;color:var(--soft);
white-space:nowrap;line-height:1;font-variant-numeric:tabular-nums}
.axis{position:relative;height:22px}
.x{position:absolute;top:7px;transform:translateX(-50%);font-size:12px;line-height:1;color:var(--soft);
white-space:nowrap}
.grid{stroke:var(--rule);stroke-width:1;vector-effect:non-scaling-stroke}
.line{fill:none;stroke-width:2;vector-effect:non-scaling-stroke;stroke-linejoin:round;stroke-linecap:round}
.line.c1{stroke:var(--c1)}.line.c2{stroke:var(--c2)}.line.c3{stroke:var(--c3)}.line.c4{stroke:var(--c4)}
.area{stroke:none;opacity:.14}
.area.c1{fill:var(--c1)}.area.c2{fill:var(--c2)}.area.c3{fill:var(--c3)}.area.c4{fill:var(--c4)}
.hover{fill:transparent}.hover:hover{fill:var(--soft);fill-opacity:.13}
.spark .line{stroke-width:1.5}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:14px}
th{text-align:left;font-weight:600}
thead th{font-size:12px;color:var(--soft);font-weight:500;border-bottom:1px solid var(--rule);
padding:0 8px 6px 0;white-space:nowrap}
tbody td,tbody th{padding:6px 8px 6px 0;border-bottom:1px solid var(--rule);font-weight:400;
vertical-align:top}
tbody tr:last-child>*{border-bottom:0}
.n{text-align:right;white-space:nowrap;padding-right:0}
td.n+td.n,th.n+th.n{padding-left:14px}
.name{overflow-wrap:anywhere}
small{color:var(--soft);font-size:13px}
.bar{display:block;height:4px;border-radius:2px;background:var(--c1);margin-top:4px;min-width:2px}
.bar.c4{background:var(--c4)}.bar.c3{background:var(--c3)}.bar.c2{background:var(--c2)}
caption{caption-side:top;text-align:left;color:var(--soft);font-size:13px;padding:0 0 8px}
.wide{overflow-x:auto}
.heat{table-layout:fixed;min-width:640px;border-collapse:separate;border-spacing:3px;font-size:12px}
.heat thead th,.heat thead td{border:0;padding:0;text-align:center}
.heat thead td,.heat tbody th{width:40px}
.heat tbody th{border:0;padding:0;color:var(--soft);vertical-align:middle}
.heat tbody td{border:0;padding:0;height:26px;border-radius:4px;background:var(--rule)}
.heat td span{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.heat .h0{background:rgba(var(--heat),.05)}.heat .h1{background:rgba(var(--heat),.16)}
.heat .h2{background:rgba(var(--heat),.32)}.heat .h3{background:rgba(var(--heat),.48)}
.heat .h4{background:rgba(var(--heat),.64)}.heat .h5{background:rgba(var(--heat),.82)}
.heat .h6{background:rgb(var(--heat))}
.scale{display:flex;align-items:center;gap:4px;font-size:12px;color:var(--soft);margin:8px 0 0 43px}
.scale i{width:20px;height:10px;border-radius:3px}
.scale .h1{background:rgba(var(--heat),.16)}.scale .h2{background:rgba(var(--heat),.32)}
.scale .h3{background:rgba(var(--heat),.48)}.scale .h4{background:rgba(var(--heat),.64)}
.scale .h5{background:rgba(var(--heat),.82)}.scale .h6{background:rgb(var(--heat))}
details{margin-top:10px;font-size:13px;color:var(--soft)}
summary{cursor:pointer;width:max-content}
details table{margin-top:8px;font-size:12px}
details .wide{max-height:360px;overflow:auto}
.none{color:var(--soft);margin:0}
.ok::before{content:"✓ ";color:var(--good);font-weight:700}
.warn::before{content:"! ";color:var(--bad);font-weight:700}
footer{color:var(--soft);font-size:13px;margin-top:24px}
:focus-visible{outline:2px solid var(--c1);outline-offset:2px}
@media(max-width:820px){.cards{grid-template-columns:1fr 1fr}.two,.inner{grid-template-columns:1fr}}
@media(max-width:520px){main{padding:20px 12px 32px}section{padding:16px 14px}.cards{gap:10px}
.card{padding:12px 12px 0}.card .value{font-size:22px}
.card .spark{width:calc(100% + 24px);margin:auto -12px 0}
.lead{font-size:16px}.plot{height:170px}.chart{padding-left:58px}.x:nth-child(even){display:none}}
@media print{:root{--bg:#fff;--card:#fff;--ink:#000;--soft:#444;--rule:#ccc;--c1:#3f5bd8;--c2:#0f9488;
--c3:#c2750a;--c4:#c03a63;--heat:63,91,216}body{font-size:12px;print-color-adjust:exact;
-webkit-print-color-adjust:exact}main{padding:0;max-width:none}nav,details{display:none}
section{padding:12px 14px}}
"""
