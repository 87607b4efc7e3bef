"""What the pages share: numbers as text, names of measures, colours, figures as SVG, templates."""
