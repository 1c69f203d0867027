package dashboard

import (
	"cmp"
	"slices"

	"github.com/purserpay/purser/pay"
)

const sharesShown = 8

// shares lists the hosts, or tasks, with the most spend.
type shares struct {
	ID, Title, Column, Caption, None, Decimals string
	Rows                                       []share
	Swap                                       bool `json:"-"` // sent to replace the shown ones
}

type share struct {
	Name, Path, Count string
	Net               amount
	Mille             int
}

func newShares(id, title, col, caption, none string, sums []pay.NameSum, path func(string) string) shares {
	s := shares{ID: id, Title: title, Column: col, Caption: caption, None: none}
	if !slices.ContainsFunc(sums, func(n pay.NameSum) bool { return n.Name != "" && n.Name != pay.RestName }) {
		return s
	}
	sums = slices.Clone(sums)
	slices.SortStableFunc(sums, func(a, b pay.NameSum) int {
		switch pay.RestName { // comes last
		case a.Name:
			return 1
		case b.Name:
			return -1
		}
		return cmp.Compare(drawn(b.Sum), drawn(a.Sum))
	})
	var rest pay.Sum
	var shown []amount
	most := drawn(sums[0].Sum)
	add := func(name, path string, sum pay.Sum) {
		row := share{Name: name, Path: path, Count: count(sum.Count), Net: netOf(sum), Mille: ratio(sum, most)}
		row.Net.Currency = "" // the column's title has it
		s.Rows, shown = append(s.Rows, row), append(shown, row.Net)
	}
	for i, sum := range sums {
		switch {
		case i >= sharesShown || sum.Name == pay.RestName:
			rest.Add(sum.Sum)
		case sum.Name == "":
			add("without one", "", sum.Sum)
		default:
			add(cut(sum.Name, maxTitle), path(sum.Name), sum.Sum)
		}
	}
	if rest != (pay.Sum{}) {
		add("all others", "", rest)
	}
	s.Decimals = column(shown...)
	return s
}

// ratio returns a sum in thousandths of the largest one. Any spend is visible.
func ratio(s pay.Sum, most float64) int {
	if net := drawn(s); net > 0 {
		return max(4, int(1000*net/most))
	}
	return 0
}
