package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// chart is a bar chart: groups of bars, one bar of each series.
type chart struct {
	title, unit string
	groups      []string
	series      []series
}

type series struct {
	name   string
	values []float64 // by group; 0 is not drawn
}

// Sizes of a chart in pixels.
const (
	chartWidth, chartHeight   = 760, 340
	chartLeft, chartRight     = 56, 16
	chartTop, chartBottom     = 76, 34
	chartInside               = chartHeight - chartTop - chartBottom
	legendColumn, legendWidth = 4, 170
)

// palette has colours that are told apart in print and by people who see few.
var palette = []string{"#0b6e4f", "#6bbf59", "#0072b2", "#56b4e9", "#555555", "#e69f00", "#cc79a7"}

// svg draws the chart.
func (c chart) svg() string {
	top := 0.0
	for _, s := range c.series {
		for _, v := range s.values {
			top = max(top, v)
		}
	}
	step := niceStep(top)
	top = math.Ceil(top/step) * step
	height := func(v float64) float64 { return v / top * chartInside }
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n",
		chartWidth, chartHeight)
	box := func(x, y, width, height float64, colour string) {
		fmt.Fprintf(&out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, width, height, colour)
	}
	box(0, 0, chartWidth, chartHeight, "#ffffff")
	label := func(x, y float64, anchor, style, text string) {
		fmt.Fprintf(&out, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, style, html.EscapeString(text))
	}
	label(chartLeft, 20, "start", `font-size="14" font-weight="bold"`, c.title+", "+c.unit)
	for i, s := range c.series {
		x, y := float64(chartLeft+i%legendColumn*legendWidth), float64(32+i/legendColumn*16)
		box(x, y, 10, 10, palette[i%len(palette)])
		label(x+14, y+9, "start", "", s.name)
	}
	for v := 0.0; v <= top+step/2; v += step {
		y := chartHeight - chartBottom - height(v)
		fmt.Fprintf(&out, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dddddd"/>`+"\n", chartLeft, y, chartWidth-chartRight, y)
		label(chartLeft-6, y+4, "end", `fill="#666666"`, short(v))
	}
	wide := float64(chartWidth-chartLeft-chartRight) / float64(len(c.groups))
	bar := min(wide*0.86/float64(len(c.series)), 60)
	for g, name := range c.groups {
		middle := chartLeft + wide*(float64(g)+0.5)
		label(middle, chartHeight-chartBottom+18, "middle", "", name)
		left := middle - bar*float64(len(c.series))/2
		for i, s := range c.series {
			if v := s.values[g]; v > 0 {
				x, y := left+bar*float64(i), chartHeight-chartBottom-height(v)
				box(x, y, bar*0.9, height(v), palette[i%len(palette)])
				label(x+bar*0.45, y-3, "middle", `font-size="9"`, short(v))
			}
		}
	}
	return out.String() + "</svg>\n"
}

// niceStep returns the distance of the lines of a chart: 1, 2 or 5 times a power of ten.
func niceStep(top float64) float64 {
	if top <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(top/4)))
	for _, n := range []float64{1, 2, 5} {
		if top/(n*power) <= 6 {
			return n * power
		}
	}
	return 10 * power
}

// short writes a value with three digits at most after its first.
func short(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 10:
		return fmt.Sprintf("%.0f", v)
	case v >= 1:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	}
	return strings.TrimRight(fmt.Sprintf("%.2f", v), "0")
}
