# How the pictures of the guides were taken, from the root of the repository.

# Those of SmolLM2 (sources, inspect-news, inspect-phone, evaluate, check, serve) and all charts: make pictures HELD=valid.txt

# inspect-story.png: a small GPT-2 on 602 stories of WritingPrompts
nextword train --data writingprompts/prompt_story.jsonl --model small --head cache \
    --objective histalign --out runs/stories task.text_column=story training.steps=1500
nextword inspect story=runs/stories --text docs/images/texts/dragon.txt --out story.html
python docs/images/take_picture.py story.html docs/images/inspect-story.png --token 50 \
    --colour "From cache" --height 1010

# inspect-two.png: the two models of this comparison
nextword compare --task lm --head softmax --head cache --out runs/lm task.data=wikitext-2 training.steps=250

# survey-*.png: made-up texts, and made-up judges who answer by chance with known shares
python docs/images/survey_example.py samples samples
nextword survey make pairwise samples/next.jsonl samples/mixed.jsonl --items 30 --judges 3 --out pairwise
python docs/images/survey_example.py answers pairwise answers-pairwise
nextword survey results pairwise answers-pairwise/*.json
python docs/images/take_picture.py pairwise/for-judges/page.html docs/images/survey-pairwise.png \
    --begin --width 1000 --height 800 --hide details
python docs/images/take_picture.py pairwise/results/report.html docs/images/survey-results.png --width 900 --height 900
