package main

import (
	"fmt"
	"strings"

	"github.com/purserpay/purser/e2e/internal/figures"
)

// stormsTitle begins the part of the page that has them.
const stormsTitle = "## MPP: the official client beside purser\n"

// storms writes the figures of storms, if there are any.
func storms(page *strings.Builder, s figures.Storms) {
	if len(s.Rows) == 0 {
		return
	}
	busy := ""
	if s.Load >= figures.Busy*float64(s.Cores) {
		busy = " The machine was busy with other work."
	}
	fmt.Fprintf(page, `%s
`+"`make storms`"+` has clients buy at once from the official seller of MPP, with chains on the same machine. In the storm the
seller asks anew before it settles and after, and loses answers. *purser* has a plain HTTP client behind it, which asks
again when an answer is lost. A row with a range had several runs.

Measured on %s at commit %s. %d cores had a load of %.1f before.%s

| the seller | takes | client | purchases | answers | credentials | debits |
|---|---|---|---|---|---|---|
`, stormsTitle, s.At.Format("2 January 2006"), s.Commit, s.Cores, s.Load, busy)
	for _, r := range s.Rows {
		fmt.Fprintf(page, "| %s | %s | %s | %d | %s | %s | %s |\n", r.Seller, r.Rail, r.Client, r.Purchases, r.Answers, r.Credentials, r.Debits)
	}
	fmt.Fprint(page, "\n")
}
