package pay

import (
	"cmp"
	"fmt"
	"math/big"
	"time"

	"github.com/purserpay/purser/x402"
)

// The words of notices. Each says what happened, with amounts, key and host, and what to do next. The
// sender adds the address of the page.

// Name names a key for people: its label, or the beginning of its id.
func (k Key) Name() string { return cmp.Or(k.Label, Truncate(k.ID, 8)) }

// about begins a notice of a payment.
func about(p *Payment, kind NoticeKind, at time.Time) Notice {
	return Notice{
		At: at, Kind: kind, KeyID: p.KeyID, OrganizationID: p.OrganizationID, WalletID: p.WalletID, PaymentID: p.ID,
		Host: p.Host, Payee: p.Terms.PayTo.String(),
	}
}

// hostOf names the host of a payment in a sentence.
func hostOf(p *Payment) string { return cmp.Or(p.Host, "an unnamed host") }

// budgetKinds lists the parts of a budget that people are told of, the largest first.
var budgetKinds = []struct {
	percent uint64
	kind    NoticeKind
}{{100, NoticeBudget100}, {80, NoticeBudget80}, {50, NoticeBudget50}}

// part reports whether have is at least so many percent of most.
func part(have, most x402.Amount, percent uint64) bool {
	return new(big.Int).Mul(have.Big(), big.NewInt(100)).Cmp(new(big.Int).Mul(most.Big(), new(big.Int).SetUint64(percent))) >= 0
}

// budgetCrossed tells of the highest part of a budget that was not used before and is now; false: of none.
func budgetCrossed(name string, row *Payment, u budgetUse) (Notice, bool) {
	for _, b := range budgetKinds {
		if !part(u.with, u.most, b.percent) {
			continue
		}
		if u.most.IsZero() || part(u.before, u.most, b.percent) {
			return Notice{}, false
		}
		return budgetNotice(name, row, u, b.kind, b.percent), true
	}
	return Notice{}, false
}

func budgetNotice(name string, row *Payment, u budgetUse, kind NoticeKind, percent uint64) Notice {
	n := about(row, kind, row.Created)
	resets := windowEnd(row.Created, u.monthly)
	window, begins := "daily", resets.Format("15:04 UTC")
	if u.monthly {
		window, begins = "monthly", resets.Format("2 January, 15:04 UTC")
	}
	n.Once = fmt.Sprintf("budget/%s/%s/%s/%s/%d", row.KeyID, u.rule, u.of, resets.Format(time.DateOnly), percent)
	if !u.most.IsZero() {
		percent = new(big.Int).Div(new(big.Int).Mul(u.with.Big(), big.NewInt(100)), u.most.Big()).Uint64()
	}
	n.Title = fmt.Sprintf("Key %s: %d %% of the %s budget%s is used", name, percent, window, u.of)
	n.Text = fmt.Sprintf("Key %s has used %d %% of its %s budget%s: %s of %s. The budget begins anew at %s.",
		name, percent, window, u.of, figure(u.with), Money(u.most), begins)
	if kind == NoticeBudget100 {
		n.Text += " Until then purser declines the payments that this budget has no room for."
	}
	n.Text += fmt.Sprintf(" You can raise it with purser limits %q, or on the page of the key.", name)
	n.Figures = map[string]string{
		"rule": u.rule, "percent": fmt.Sprint(percent), "used": Money(u.with), "limit": Money(u.most), "resets": resets.Format(time.RFC3339),
	}
	return n
}

// newHostNotice tells that a key pays a host for the first time.
func newHostNotice(name string, row *Payment) Notice {
	n := about(row, NoticeNewHost, row.Created)
	n.Once = "host/" + row.KeyID + "/" + row.Host
	n.Title = fmt.Sprintf("Key %s pays a new host: %s", name, row.Host)
	n.Text = fmt.Sprintf("Key %s pays %s for the first time: %s to %s. If you do not know the host, pause the key with purser keys pause %q, or deny the host with purser limits %q --add-deny-host.",
		name, row.Host, Money(row.Terms.Amount), row.Terms.PayTo, name, name)
	n.Figures = map[string]string{"price": Money(row.Terms.Amount)}
	return n
}

// newPayeeNotice tells that a host that the key has paid asks to pay another address.
func newPayeeNotice(name string, row *Payment) Notice {
	n := about(row, NoticeNewPayee, row.Created)
	n.Once = payeeMark(row)
	n.Title = fmt.Sprintf("Key %s pays %s at a new address", name, row.Host)
	n.Text = fmt.Sprintf("%s asks key %s to pay %s to %s. The key has never paid this address. If the seller has not announced it, pause the key with purser keys pause %q and ask the seller.",
		row.Host, name, Money(row.Terms.Amount), row.Terms.PayTo, name)
	n.Figures = map[string]string{"price": Money(row.Terms.Amount)}
	return n
}

func payeeMark(row *Payment) string {
	return "payee/" + row.KeyID + "/" + row.Terms.Network + "/" + row.Terms.PayTo.String()
}

// payeesMark says that the payees of a host are known.
func payeesMark(row *Payment) string { return "payees/" + row.KeyID + "/" + row.Host }

// priceJump is the factor above an endpoint's last price from which on people are told.
const priceJump = 2

// priceNotice tells that an endpoint asks more than priceJump times what it was last paid.
func priceNotice(name string, row *Payment, last x402.Amount) Notice {
	n := about(row, NoticePriceJump, row.Created)
	n.Once = string(row.Price) + "/" + row.Created.UTC().Format(time.DateOnly)
	n.Title = fmt.Sprintf("%s asks more than before", hostOf(row))
	n.Text = fmt.Sprintf("Key %s pays %s to %s for a request that last cost %s. To bound such jumps, set purser limits %q --price-guard %d.",
		name, Money(row.Terms.Amount), hostOf(row), Money(last), name, priceJump)
	n.Figures = map[string]string{"price": Money(row.Terms.Amount), "last": Money(last)}
	return n
}

// disputedNotice tells that the chain disproves a settlement.
func disputedNotice(name string, p *Payment, at time.Time) Notice {
	n := about(p, NoticeDisputed, at)
	n.Title = fmt.Sprintf("A payment to %s is disputed", hostOf(p))
	n.Text = fmt.Sprintf("A receipt said that key %s had paid %s to %s, and the chain shows that this money did not move. purser has taken the amount off the books. Ask the seller why it sent the receipt. See payment %s.",
		name, Money(p.Moved()), hostOf(p), p.ID)
	n.Figures = map[string]string{"amount": Money(p.Moved())}
	return n
}

// unresolvedNotice tells that a payment has expired without evidence.
func unresolvedNotice(name string, p *Payment, at time.Time) Notice {
	n := about(p, NoticeUnresolved, at)
	n.Title = fmt.Sprintf("A payment to %s is unresolved", hostOf(p))
	n.Text = fmt.Sprintf("Key %s sent %s to %s. The authorization has expired, and purser cannot tell whether the money moved. Look at the wallet on the chain, then say so with purser payments resolve %s.",
		name, Money(p.Terms.Amount), hostOf(p), p.ID)
	n.Figures = map[string]string{"amount": Money(p.Terms.Amount)}
	return n
}

// unansweredNotice tells that a host takes payloads and answers none.
func unansweredNotice(name string, p *Payment, at time.Time, run int) Notice {
	n := about(p, NoticeUnansweredRun, at)
	n.Once = "unanswered/" + p.KeyID + "/" + p.Host + "/" + at.UTC().Format(time.DateOnly)
	n.Title = fmt.Sprintf("%s has left %d payments in a row unanswered", hostOf(p), run)
	n.Text = fmt.Sprintf("Key %s has sent %d payments in a row to %s and got no answer in full to any of them. The last one is %s. If the host stays like this, deny it with purser limits %q --add-deny-host.",
		name, run, hostOf(p), Money(p.Terms.Amount), name)
	n.Figures = map[string]string{"run": fmt.Sprint(run)}
	return n
}

// lowMark names the notice of a wallet that is low. It is forgotten when the wallet has enough again.
func lowMark(w Wallet, symbol string) string { return "low/" + w.ID + "/" + symbol }

// lowBalanceNotice tells that a wallet has less than its mark.
func lowBalanceNotice(w Wallet, symbol string, have, mark x402.Amount, at time.Time) Notice {
	return Notice{
		At: at, Kind: NoticeLowBalance, Once: lowMark(w, symbol), KeyID: w.KeyID, WalletID: w.ID,
		Title: fmt.Sprintf("A wallet on %s is low: %s", w.Network, Money(have)),
		Text: fmt.Sprintf("Wallet %s on %s holds %s, which is less than %s. Send %s on %s to this address. purser tells this once, until the wallet has enough again.",
			w.Address, w.Network, Money(have), Money(mark), moneySymbol, w.Network),
		Figures: map[string]string{"balance": Money(have), "mark": Money(mark), "network": w.Network, "address": w.Address.String()},
	}
}

// PauseNotice tells of a change of the pause of everything.
func PauseNotice(was, now *Pause, by Actor, at time.Time) []Notice {
	switch {
	case now != nil && was != nil && now.Reason == was.Reason:
		return nil
	case now != nil:
		n := Notice{At: now.At, Kind: NoticePaused, Title: "purser is paused", Figures: map[string]string{}}
		n.Text = "purser makes no new payments"
		if who := now.By.String(); who != "" {
			n.Text += ", by the word of the " + who
			n.Figures["by"] = who
		}
		n.Text += "."
		if now.Reason != "" {
			n.Text += " The reason: " + QuoteWords(Words(now.Reason)) + "."
			n.Figures["reason"] = Words(now.Reason)
		}
		n.Text += " Payments in flight go on to their end. Resume with purser resume."
		return []Notice{n}
	case was != nil:
		n := Notice{At: at, Kind: NoticeResumed, Title: "purser pays again", Text: "purser makes new payments again", Figures: map[string]string{}}
		if who := by.String(); who != "" {
			n.Text += ", by the word of the " + who
			n.Figures["by"] = who
		}
		n.Text += "."
		n.Figures["paused_since"] = was.At.UTC().Format(time.RFC3339)
		return []Notice{n}
	}
	return nil
}

// DeclinedNotice tells that a rule declines payments of a key, once in an hour.
func DeclinedNotice(name string, d Decline, rule string, at time.Time) Notice {
	rule = cmp.Or(rule, d.Reason)
	host := cmp.Or(d.Host, "a host")
	n := Notice{
		At: at, Kind: NoticeDeclined, KeyID: d.KeyID, Host: d.Host,
		Once:  "declined/" + d.KeyID + "/" + rule + "/" + at.UTC().Format("2006-01-02T15"),
		Title: fmt.Sprintf("A payment of key %s to %s was declined", name, host),
		Text:  fmt.Sprintf("purser declined a payment of key %s to %s", name, host), Figures: map[string]string{"rule": rule},
	}
	if d.Price != nil {
		n.Text += " for " + Money(*d.Price)
		n.Figures["price"] = Money(*d.Price)
	}
	n.Text += " by the rule " + rule
	if d.Detail != "" {
		n.Text += ": " + Words(d.Detail)
	}
	n.Text += ". Further declines by this rule are told in the next hour at the earliest. See all of them under Declined on the dashboard."
	return n
}

// ApprovalNotice tells that a payment waits for a person's approval.
func ApprovalNotice(name string, a Approval) Notice {
	host := cmp.Or(a.Host, "an unnamed host")
	n := Notice{
		At: a.Created, Kind: NoticeApproval, Once: "approval/" + a.ID, KeyID: a.KeyID, OrganizationID: a.OrganizationID, ApprovalID: a.ID,
		Host: a.Host, Payee: a.Terms.PayTo.String(),
		Title: fmt.Sprintf("Key %s asks to pay %s to %s", name, Money(a.Terms.Amount), host),
	}
	n.Text = fmt.Sprintf("Key %s asks to pay %s to %s on %s", name, Money(a.Terms.Amount), host, a.Terms.Network)
	if a.Task != "" {
		n.Text += " for task " + a.Task
	}
	n.Text += ", and may do so only once you agree"
	if a.Detail != "" {
		n.Text += ": " + Words(a.Detail)
	}
	n.Text += fmt.Sprintf(". Approve or deny it until %s with purser approvals, or on the page of approvals.", a.Expires.UTC().Format("2 January, 15:04 UTC"))
	n.Figures = map[string]string{"price": Money(a.Terms.Amount), "network": a.Terms.Network, "expires": a.Expires.UTC().Format(time.RFC3339), "rule": a.Rule}
	return n
}
