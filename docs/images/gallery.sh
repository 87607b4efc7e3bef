#!/usr/bin/env bash
# Takes the pictures of docs/gallery.md in a browser, from the pages that its commands write. Run in a clone with the
# extras browser and docs, and a Chromium.
set -euo pipefail

cp docs/images/trace.ipynb . && jupyter nbconvert --to html --execute trace.ipynb
shot() { python docs/images/take_picture.py "$1" "docs/images/gallery/$2" "${@:3}"; }
shot runs/ambiguous/report.html report.png --width 640 --scale 1.6 \
    --only "h1, #results .scroll:first-child" --hide ".facts, nav"
shot runs/ambiguous/report.html predictions.png --width 640 --scale 1.6 \
    --only "#examples .legend, #examples .prompt:nth-of-type(2) .answers:nth-of-type(2)"
shot runs/ambiguous/report.html spectrum.svg --only "#spectrum svg"
shot page.html differences.png --width 600 --scale 1.6 \
    --only "#differences h2, #differences .lead, #differences > .rows li:nth-child(-n+5)"
shot page.html token.png --width 900 --height 730 --scale 1.2 --token 184 --model cache
shot trace.html notebook.png --width 760 --height 1500 --scale 1.25 \
    --only ".jp-Cell" --hide '[data-mime-type$="stderr"]'
shot runs/texts/report.html texts.png --width 640 --scale 1.6 \
    --only "#written > :not(.prompt), #written .prompt:nth-of-type(1)"
shot runs/texts/report.html groups.svg --only "#groups svg"
shot table-3.html paper.png --width 640 --scale 1.6 \
    --only "h2:not(#contents), .scroll, .claims" --hide "h1, details"
