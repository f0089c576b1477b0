"""The style of every page: one text of CSS, light and dark; `passbench.page` puts it into the page.

Reads and writes nothing. Charts and graphs use its variables and classes, so they follow the page.
"""

STYLE = """
:root{color-scheme:light dark;--bg:#f6f7f9;--card:#fff;--ink:#1c2330;--soft:#5b6675;--line:#e2e6ec;--one:#2458d3;
--two:#c26a00;--good:#12805c;--poor:#c0262d;--fair:#8a6100;--goodbg:#e3f5ed;--poorbg:#fde8e8;--fairbg:#fdf2d5;
--code:#f3f5f8;--k:#8b2fb5;--s:#12705c;--n:#b25000;--c:#7a8594}
@media(prefers-color-scheme:dark){:root{--bg:#0f1319;--card:#171c25;--ink:#e6eaf0;--soft:#98a3b3;--line:#2a323e;
--one:#7aa2ff;--two:#f2a541;--good:#4fd1a1;--poor:#ff8086;--fair:#f0c05a;--goodbg:#12352a;--poorbg:#40191d;
--fairbg:#3a2f12;--code:#11161e;--k:#d39bf0;--s:#6fd3b5;--n:#f2a541;--c:#7f8a99}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1180px;margin:0 auto;padding:32px 20px 64px}header h1{font-size:28px;margin:0;letter-spacing:-.01em}
header p{margin:2px 0 20px;color:var(--soft)}
code,pre{font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace}
code{font-size:.92em}.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(180px,1fr));gap:10px;
margin-bottom:14px}
.tiles+.note{margin:-4px 2px 14px}
.tile,.card{background:var(--card);border:1px solid var(--line);border-radius:12px}.tile{padding:12px 14px}
.tile b{display:block;font-weight:500;color:var(--soft);font-size:13px}.tile span{font-size:25px;font-weight:640;
font-variant-numeric:tabular-nums;letter-spacing:-.02em}.tile small{display:block;color:var(--soft);font-size:12px;
line-height:1.35}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(460px,100%),1fr));gap:14px;margin-bottom:14px}
.card{padding:16px 18px;min-width:0}.card.wide{margin-bottom:14px}.card h2{font-size:16px;margin:0 0 8px}
.card h3{font-size:13px;color:var(--soft);margin:14px 0 4px;font-weight:600}.note,.empty{color:var(--soft);
font-size:13px;margin:6px 0 0}
svg.chart{width:100%;height:auto;display:block}svg.graph{max-width:720px;width:100%;height:auto;display:block}
svg text{font:12px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:var(--soft)}
svg .title{fill:var(--soft)}.halo{paint-order:stroke;stroke:var(--card);stroke-width:6px}
svg .name{fill:var(--ink)}svg text.bad{fill:var(--poor)}.chart .grid{stroke:var(--line);stroke-width:1}
.limit{stroke:var(--soft);stroke-dasharray:4 4;fill:none;stroke-width:1.2}.line{fill:none;stroke-width:2.2;
stroke-linejoin:round}
.line.one,.whisker.one{stroke:var(--one)}.line.two,.whisker.two{stroke:var(--two)}.whisker.bad{stroke:var(--poor)}
.whisker{stroke-width:2.4;stroke-linecap:round;opacity:.55}.band{opacity:.16}.band.one,.dot.one{fill:var(--one)}
.band.two,.dot.two,.mark.two{fill:var(--two)}.dot.bad{fill:var(--poor)}.dot{stroke:var(--card);stroke-width:1}
.mark{opacity:.85}
.node rect{fill:var(--code);stroke:var(--line)}.node .op{fill:var(--ink);font-weight:600}.node .id{fill:var(--soft)}
.gone rect{fill:var(--poorbg);stroke:var(--poor)}.made rect{fill:var(--goodbg);stroke:var(--good)}
.edge{fill:none;stroke:var(--soft);stroke-width:1.3;opacity:.6}.edge.gone{stroke:var(--poor)}
.edge.made{stroke:var(--good)}
table{border-collapse:collapse;width:100%;font-size:13.5px}th{text-align:left;color:var(--soft);font-weight:500}
th,td{padding:5px 10px 5px 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
tr:last-child td,tr:last-child th{border-bottom:0}.facts th{width:110px}.rows td{font-variant-numeric:tabular-nums}
.rows td:not(:nth-child(3)):not(:last-child){white-space:nowrap}
.rows th{white-space:nowrap}.rows td:nth-child(3){min-width:150px}.rows td:last-child{min-width:170px;
color:var(--soft)}
.scroll{overflow-x:auto}.chip{display:inline-block;border-radius:99px;padding:1px 9px;font-size:12px;font-weight:600;
white-space:nowrap}
.good{background:var(--goodbg);color:var(--good)}.poor{background:var(--poorbg);color:var(--poor)}
.fair{background:var(--fairbg);
color:var(--fair)}.measures{columns:2;list-style:none;margin:4px 0 0;padding:0;font-size:13px}
.measures li:before{content:"✓ ";
color:var(--good)}.measures li.no:before{content:"✗ ";color:var(--poor)}details{border-top:1px solid var(--line);
padding:6px 0}
summary{cursor:pointer;font-size:13.5px}pre{background:var(--code);border-radius:8px;padding:12px 14px;overflow:auto;
max-height:560px;
font-size:12.5px;line-height:1.45;margin:8px 0}pre i{font-style:normal}.k{color:var(--k)}.s{color:var(--s)}
.n{color:var(--n)}
.c{color:var(--c)}.d{color:var(--k)}a{color:var(--one)}
@media(max-width:640px){main{padding:18px 12px 40px}.measures{columns:1}.tile span{font-size:21px}}
"""
"""CSS of all pages."""
