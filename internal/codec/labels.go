package codec

import (
	"slices"

	"github.com/purserpay/purser/pay"
)

// AllLabels lists the labels in the order of their bits. An encoded payment begins with the first eight.
func AllLabels() []string {
	return []string{string(pay.Open), string(pay.Settled), string(pay.Void), "refused", "unresolved", "confirmed", "disputed", "reconciled", "undelivered"}
}

// LabelBits sets a bit for each label.
func LabelBits(labels ...string) (bits uint16) {
	for _, label := range labels {
		if i := slices.Index(AllLabels(), label); i >= 0 {
			bits |= 1 << i
		}
	}
	return bits
}

// FirstLabels returns the bits of a payment's labels that stand before its row: those of the first eight labels.
func FirstLabels(p *pay.Payment) byte { return byte(LabelBits(p.Labels()...)) }
