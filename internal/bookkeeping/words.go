package bookkeeping

import (
	"cmp"
	"fmt"
	"time"
)

// Text says how a wallet's books compare with the chain.
func (w *WalletStatement) Text() string {
	text := ""
	switch w.Verdict {
	case Equal:
		text = "equals the chain"
	case Explained:
		text = fmt.Sprintf("equals the chain but for %s, and payments explain each", differences(len(w.Differences)+w.More))
	case Differs:
		text = fmt.Sprintf("DIFFERS FROM THE CHAIN: %s", differences(len(w.Differences)+w.More))
	case NotCompared:
		return "not compared with the chain: " + w.Why
	}
	if w.Chain.Running {
		text += fmt.Sprintf(", up to the newest safe block, of %s", w.Chain.Closing.Time.UTC().Format(time.RFC3339))
	}
	if w.Chain.Derived {
		text += "; the RPC has no old balances, so they come from its newest one and the transfers since"
	}
	return text
}

func differences(n int) string {
	if n == 1 {
		return "1 difference"
	}
	return fmt.Sprintf("%d differences", n)
}

// Text says why the chain and the books differ.
func (d Difference) Text() string {
	payment := "payment " + d.PaymentID
	if what := cmp.Or(d.Tool, d.Host); what != "" {
		payment += " for " + what
	}
	booked := d.At.UTC().Format(time.RFC3339)
	switch d.Reason {
	case Timing:
		if d.Block == 0 {
			return fmt.Sprintf("%s was booked at %s, and its transfer is in no block of this time yet", payment, booked)
		}
		return fmt.Sprintf("%s was booked at %s, and its transfer is in block %d, of another month", payment, booked, d.Block)
	case Disputed:
		return fmt.Sprintf("%s is disputed: booked at %s, and taken back in another month, because the chain disproves it", payment, booked)
	case Open:
		return fmt.Sprintf("%s is open: its transfer is in block %d, and it will be booked", payment, d.Block)
	case Missing:
		return fmt.Sprintf("%s was booked at %s, and the chain has no transfer of it", payment, booked)
	case Corrected:
		return fmt.Sprintf("%s was taken back, and the chain has its transfer in block %d", payment, d.Block)
	case NotBooked:
		return fmt.Sprintf("the books do not know the transfer to %s in block %d, %s", d.Other, d.Block, d.Transaction)
	case Unexplained:
	}
	return "the balance changed without a transfer"
}
