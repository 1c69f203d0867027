package money

import (
	"fmt"
	"strings"
)

// Symbol and Decimals are those of every pinned asset.
const (
	Symbol   = "USDC"
	Decimals = 6
)

// Text writes an amount for people, with two decimals or more: "0.50 USDC".
func Text(a Amount) string { return Figure(a) + " " + Symbol }

// ParseText reads an amount as people write it: "0.5" or "0.5 USDC".
func ParseText(text string) (Amount, error) {
	number := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), " "+Symbol))
	a, err := ParseUnits(number, Decimals)
	if err != nil {
		return a, fmt.Errorf("%q is not an amount of USDC such as 0.50: %w", text, err)
	}
	return a, nil
}

// Figure writes an amount for people without its symbol, with two decimals or more: "0.50".
func Figure(a Amount) string {
	whole, fraction, _ := strings.Cut(a.Format(Decimals), ".")
	return whole + "." + fraction + "00"[:max(0, 2-len(fraction))]
}
