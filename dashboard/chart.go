package dashboard

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/purserpay/purser/pay"
)

// Geometry of the chart. Widths are in percent, because only the browser knows the width. Heights are
// in pixels.
const (
	plotTop    = 10
	plotBottom = 170
	marksY     = plotBottom + 20
	maxTicks   = 4
)

// chart shows spend by day. A bar shows a day's spend minus its corrections, in parts if the chart is
// split. The table beside it has the exact sums.
type chart struct {
	Total      amount
	During     string // "in the last 30 days"
	Text       string // description for screen readers
	Grid       []gridLine
	Bars       []bar
	Marks      []mark
	Legend     []legend // of a chart that is split
	Column     string   // what it is split by
	Rows       []dayRow
	Decimals   string
	MarksY     int
	PlotHeight int
}

type gridLine struct {
	Class, Text string
	Y, TextY    int
}

type bar struct {
	Text             string // of its day, for the read-out
	SlotX, SlotWidth string // in percent
	X, Width         string
	Parts            []part
}

// part is a piece of a bar, in pixels.
type part struct {
	Class     string
	Y, Height int
}

// legend names the color of a key, host or task.
type legend struct {
	Class, Name, Path string
	Net               amount
}

type mark struct{ X, Anchor, Text string }

type dayRow struct {
	Name, Path, Count string
	Net               amount
	Parts             []amount // in the order of the legend
}

func newChart(days []pay.DaySum, view chartView, lanes []lane) chart {
	c := chart{MarksY: marksY, PlotHeight: plotBottom, During: view.text()}
	if len(days) == 0 {
		return c
	}
	var total pay.Sum
	most, highest := days[0], 0.0
	for _, d := range days {
		total.Add(d.Sum)
		if drawn(d.Sum) > drawn(most.Sum) {
			most = d
		}
		highest = max(highest, stacked(d, lanes))
	}
	c.Total = netOf(total)
	c.describe(view, most)
	for i, l := range lanes {
		c.Legend = append(c.Legend, legend{laneClass(i), l.name, l.path, netOf(l.total)})
	}
	var top float64
	top, c.Grid = ticks(highest)
	var shown []amount
	for i, d := range days {
		net := netOf(d.Sum)
		shown = append(shown, net)
		b, row := newBar(i, len(days)), dayRow{
			Name: d.Day.Format("Mon, 2 Jan 2006"), Path: filter{period: period{From: d.Day, To: d.Day}}.path(), Count: count(d.Count), Net: net,
		}
		b.Text = fmt.Sprintf("%s: %s, %s", d.Day.Format("Monday, 2 January"), net, payments(d.Count))
		if len(lanes) == 0 {
			b.stack("bar", drawn(d.Sum), top)
			if i == len(days)-1 && len(b.Parts) > 0 {
				b.Parts[0].Class = "bar bar-last"
			}
		}
		for n, l := range lanes {
			sum := l.days[d.Day.Unix()]
			part := netOf(sum)
			b.stack(laneClass(n), drawn(sum), top)
			if sum != (pay.Sum{}) {
				b.Text += "; " + l.name + " " + part.String()
			}
			row.Parts, shown = append(row.Parts, part), append(shown, part)
		}
		c.Bars, c.Rows = append(c.Bars, b), append(c.Rows, row)
	}
	slices.Reverse(c.Rows)
	c.Decimals = column(shown...)
	c.Marks = marks(days)
	return c
}

// describe makes the description for screen readers.
func (c *chart) describe(view chartView, most pay.DaySum) {
	c.Column = view.by
	c.Text = "Bar chart of the spend of each day " + c.During
	if view.by != "" {
		c.Text += ", by " + view.by
	}
	c.Text += ": " + c.Total.String() + " in all"
	if drawn(most.Sum) > 0 {
		c.Text += fmt.Sprintf(", most on %s with %s", most.Day.Format("2 January"), netOf(most.Sum))
	}
	c.Text += ". The same is in the table below."
}

func laneClass(i int) string { return "lane lane-" + strconv.Itoa(i+1) }

// stacked returns the height of a day's bar in millionths of a dollar.
func stacked(d pay.DaySum, lanes []lane) (sum float64) {
	if len(lanes) == 0 {
		return drawn(d.Sum)
	}
	for _, l := range lanes {
		sum += max(0, drawn(l.days[d.Day.Unix()]))
	}
	return sum
}

// drawn returns a sum after corrections in millionths of a dollar, for drawing and sorting.
func drawn(s pay.Sum) float64 {
	net, minus := s.Net()
	n, _ := new(big.Float).SetInt(net.Big()).Float64()
	if minus {
		return -n
	}
	return n
}

func newBar(i, n int) bar {
	slot := 100 / float64(n)
	gap := 0.14 // of a slot, on either side
	if n > 60 {
		gap = 0.08
	}
	return bar{
		SlotX: percent(slot * float64(i)), SlotWidth: percent(slot),
		X: percent(slot * (float64(i) + gap)), Width: percent(slot * (1 - 2*gap)),
	}
}

// stack puts a part on top of the others.
func (b *bar) stack(class string, n, top float64) {
	h := height(n, top)
	if h == 0 {
		return
	}
	y := plotBottom
	if len(b.Parts) > 0 {
		y = b.Parts[len(b.Parts)-1].Y
	}
	b.Parts = append(b.Parts, part{class, max(0, y-h), h})
}

func percent(p float64) string { return fmt.Sprintf("%.2f%%", p) }

// height returns the height of an amount in pixels. Any amount above 0 has at least 2 pixels.
func height(n, top float64) int {
	if n <= 0 {
		return 0
	}
	return max(2, int(n/top*(plotBottom-plotTop)))
}

// ticks returns the top value of the axis, a round number, and the grid lines. Their labels have the
// same number of decimals.
func ticks(most float64) (top float64, lines []gridLine) {
	step := 1.0
	for i := 0; most > maxTicks*step; i++ {
		step *= []float64{2, 2.5, 2}[i%3] // 1, 2, 5, 10, 20, 50, …
	}
	_, fraction, _ := strings.Cut(strconv.FormatFloat(step/1e6, 'f', -1, 64), ".")
	n := int(math.Ceil(max(0, most) / step))
	for i := range n + 1 {
		y := plotBottom - (plotBottom-plotTop)*i/max(1, n)
		line := gridLine{Class: "grid", Y: y, TextY: y + 4, Text: thousandsOf(strconv.FormatFloat(step*float64(i)/1e6, 'f', len(fraction), 64))}
		if i == 0 {
			line.Class, line.Text = "base", "0"
		}
		lines = append(lines, line)
	}
	return step * float64(max(1, n)), lines
}

// marks labels some of the days: the last one, and then backwards in even steps.
func marks(days []pay.DaySum) []mark {
	every := max(1, (len(days)+3)/4)
	if len(days) <= 7 {
		every = 2
	}
	slot := 100 / float64(len(days))
	var list []mark
	for i := len(days) - 1; i >= 0; i -= every {
		m := mark{X: percent(slot * (float64(i) + 0.5)), Anchor: "middle", Text: days[i].Day.Format("2 Jan")}
		switch {
		case i == len(days)-1 && len(days) > 7:
			m.X, m.Anchor = "100%", "end"
		case i == 0 && len(days) > 7:
			m.X, m.Anchor = "0%", "start"
		}
		list = append(list, m)
	}
	return list
}
