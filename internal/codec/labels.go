package codec

import (
	"slices"

	"github.com/purserpay/purser/pay"
)

// AllLabels lists the labels in the order of their bits in an encoded payment.
func AllLabels() []string {
	return []string{string(pay.Open), string(pay.Settled), string(pay.Void), "refused", "unresolved", "confirmed", "disputed", "reconciled"}
}

// LabelBits sets a bit for each label.
func LabelBits(labels ...string) (bits byte) {
	for _, label := range labels {
		if i := slices.Index(AllLabels(), label); i >= 0 {
			bits |= 1 << i
		}
	}
	return bits
}
