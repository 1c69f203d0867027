package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// chapter prints lines under a name that stands once.
type chapter struct {
	*table
	name string
}

func (c *chapter) line(format string, args ...any) {
	c.row(c.name, fmt.Sprintf(format, args...))
	c.name = ""
}

// writeStory tells of a payment: what the seller asked, how purser decided, and what came of it.
func writeStory(t *table, s adminapi.Story) {
	t.row("payment", s.ID)
	t.row("state", paymentLabels(s.Payment))
	t.row("amount", storyMoney(s))
	t.some("reason", s.Reason)
	t.some("advice", s.Advice)
	writeAsked(&chapter{t, "asked"}, s)
	writeDecided(&chapter{t, "decided"}, s)
	writeJournal(&chapter{t, "journal"}, s)
	writeSent(&chapter{t, "sent"}, s)
	writeReceipt(&chapter{t, "receipt"}, s)
	writeChain(&chapter{t, "chain"}, s)
	switch {
	case s.State != pay.Open:
	case s.Resolvable:
		t.row("to do", "find out what became of it, then: purser payments resolve "+s.ID+" --as settled|void --reason …")
	default:
		t.some("to do", "nothing: "+s.Unresolvable)
	}
}

func storyMoney(s adminapi.Story) string {
	text := paymentMoney(s.Payment)
	charged, _ := money.Parse(s.Charged)
	price, _ := money.Parse(s.Amount)
	switch gas, less := charged.Sub(price); {
	case s.Charged == "":
	case less:
		text += ", of at most " + units(s.Amount) + " " + s.Currency
	case !gas.IsZero():
		text += ", of this " + units(gas.String()) + " " + s.Currency + " for gas"
	}
	return text
}

func writeAsked(c *chapter, s adminapi.Story) {
	if s.Door == policy.DoorOperator {
		c.line("you asked for a withdrawal of %s to %s on %s", paymentMoney(s.Payment), s.PayTo, s.Network)
		return
	}
	c.line("%s asked %s %s on %s for %s", cmp.Or(s.Host, "a seller"), units(s.Amount), s.Currency, s.Network, cmp.Or(s.RequestURL, "a URL that was not given"))
	if s.Description != "" {
		c.line("the seller calls it %q", s.Description)
	}
	by := "the seller sends the transfer to the chain"
	if s.Settlement == pay.SettlePayer {
		by = "purser's facilitator sends the transfer to the chain"
	}
	c.line("%s, scheme %s, payee %s; %s", s.Words(), s.Scheme, s.PayTo, by)
}

// doorNames tell where a request came in.
var doorNames = map[policy.Door]string{
	policy.DoorProxy: "at the proxy", policy.DoorTransport: "at the sidecar", policy.DoorAPI: "on REST", policy.DoorOperator: "by you",
}

func writeDecided(c *chapter, s adminapi.Story) {
	key := s.KeyID
	if s.KeyLabel != "" {
		key = s.KeyLabel + " (" + s.KeyID + ")"
	}
	text := "allowed " + doorNames[s.Door] + " for the key " + key
	if s.Task != "" {
		text += " and its task " + s.Task
	}
	c.line("%s", text)
	if s.Organization != "" {
		c.line("the key belongs to the organization %s", s.Organization)
	}
	if s.Door == policy.DoorOperator {
		c.line("withdrawals keep no limits")
		return
	}
	if len(s.Limits) == 0 {
		c.line("no limit on amounts holds for it")
	}
	for _, l := range s.Limits {
		c.line("%s", limitText(l))
	}
}

// limitText is a limit in words, as it is now.
func limitText(l adminapi.Limit) string {
	of := map[bool]string{true: " for the host ", false: " of the task "}[strings.HasPrefix(l.Rule, "host-")] + l.Of
	switch l.Of {
	case "":
		of = ""
	case "*":
		of = " of all tasks without their own"
	}
	if l.Spent == "" {
		return fmt.Sprintf("limit of one payment%s: %s USDC", of, units(l.Limit))
	}
	if !l.Since.IsZero() {
		ends := ""
		if !l.Ends.IsZero() {
			ends = ", until " + when(l.Ends)
		}
		return fmt.Sprintf("total%s since %s%s: %s USDC, %s of it used and %s left, as it is now", of, when(l.Since), ends, units(l.Limit), units(l.Spent), units(l.Left))
	}
	name, window := "", ""
	for _, p := range policy.Periods {
		if strings.HasSuffix(l.Rule, p.Rule()) {
			name, window = p.Word(), "of that "+p.Noun()
		}
	}
	return fmt.Sprintf("%s budget%s: %s USDC, %s of it used and %s left %s, as it is now", name, of, units(l.Limit), units(l.Spent), units(l.Left), window)
}

// journaledAs begins the first step of what purser journaled itself.
const journaledAs = "journaled, "

func writeJournal(c *chapter, s adminapi.Story) {
	for _, step := range s.Steps {
		if strings.HasPrefix(step.What, journaledAs) {
			text := "written before anything was signed or sent"
			if as, withdrawal := strings.CutPrefix(step.What, journaledAs+"as "); withdrawal {
				text += ", as " + as
			}
			c.line("%s: %s", when(step.At), text)
		}
	}
	for _, r := range s.Reservations {
		if text := reservationText(s, r); text != "" {
			c.line("%s", text)
		}
	}
	if s.Lease != nil {
		c.line("in work until %s", when(s.Lease.Until))
	}
}

// reservationText is a reservation for people; "" for one that only sums up others. A counter's
// name says what it counts.
func reservationText(s adminapi.Story, r adminapi.Reservation) string {
	kind, rest, _ := strings.Cut(r.Counter, "/")
	day := ""
	for part := range strings.SplitSeq(rest, "/") {
		if len(part) >= len("2026-11") && part[4] == '-' && strings.HasPrefix(part, "20") {
			day = part
		}
	}
	amount := units(r.Amount) + " " + s.Currency
	var what string
	switch kind {
	case "hold":
		what = amount + " of the wallet"
	case "day", "hour":
		what = amount + " of the key's spending, " + day
	case "task-day", "task-hour":
		what = amount + " of the task's spending, " + day
	case "task-total":
		what = amount + " of the task's total since " + day
	case "site-day", "site-hour":
		what = amount + " of the host's spending, " + day
	case "place":
		what = r.Amount + " payment of the plan, " + day
	case "minute":
		what = r.Amount + " payment of the minute, " + day
	default:
		return ""
	}
	switch {
	case r.Released && kind == "hold" && s.State == pay.Settled:
		return what + ": held until it was settled"
	case r.Released:
		return what + ": given back"
	case s.State == pay.Settled:
		return what + ": used"
	}
	return what + ": reserved"
}

func writeSent(c *chapter, s adminapi.Story) {
	c.line("from %s, valid until %s", s.From, when(s.ValidBefore))
	for _, step := range s.Steps {
		if !strings.HasPrefix(step.What, journaledAs) {
			c.line("%s: %s", when(step.At), step.What)
		}
	}
	for _, known := range s.Evidence {
		c.line("%s", known)
	}
	if s.Detail != nil {
		c.line("the facilitator's answer: %s", s.Detail)
	}
}

func writeReceipt(c *chapter, s adminapi.Story) {
	if r := s.SignedReceipt; r != nil {
		word := "the seller's signature is verified"
		if !r.Verified {
			word = "the seller's signature is not verified"
		}
		c.line("%s: %s", word, r.Receipt)
	}
	if s.EventID != "" {
		c.line("booked as the spend event %s", s.EventID)
	}
}

func writeChain(c *chapter, s adminapi.Story) {
	if s.Transaction != "" {
		c.line("transaction %s", s.Transaction)
	}
	if s.Nonce != "" {
		c.line("authorization %s", s.Nonce)
	}
	looked := fmt.Sprintf("purser has looked %d times", s.Checked)
	switch s.Checked {
	case 0:
		looked = "purser has not looked yet"
	case 1:
		looked = "purser has looked once"
	}
	if !s.NextCheck.IsZero() {
		looked += ", and looks again from " + when(s.NextCheck)
	}
	c.line("%s", looked)
}
