package pay

import (
	"cmp"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// The words of notices. Each says what happened, with amounts, key and host, and what to do next. The
// sender adds the address of the page.

// Name names a key for people: its label, or the beginning of its id.
func (k Key) Name() string { return cmp.Or(k.Label, words.Truncate(k.ID, 8)) }

// about begins a notice of a payment.
func about(p *Payment, kind NoticeKind, at time.Time) Notice {
	return Notice{
		At: at, Kind: kind, KeyID: p.KeyID, OrganizationID: p.OrganizationID, WalletID: p.WalletID, PaymentID: p.ID,
		Host: p.Host, Payee: p.Terms.PayTo.String(),
	}
}

// figuresOf adds the means of the payment that a notice tells of.
func figuresOf(p *Payment, figures map[string]string) map[string]string {
	means := p.Means()
	if figures["rail"] = means.Rail; means.Protocol != "" {
		figures["protocol"] = means.Protocol
	}
	return figures
}

// hostOf names the host of a payment in a sentence.
func hostOf(p *Payment) string { return cmp.Or(p.Host, "an unnamed host") }

// shellWord writes a word of others so that a command with it can be pasted into a shell; "" if no quotes
// make it safe. A word that begins with a hyphen would be taken for a flag. One with characters that
// cannot be seen would be another word once a sender has taken them out, or steer the terminal.
func shellWord(word string) string {
	if word == "" || word[0] == '-' || words.Of(word) != word {
		return ""
	}
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:@/-", r)
	}
	if strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// keyWord names a key in a command to paste: by its label, or by its id if the label is not safe there.
// A label that reads like an id, or like the name of the exec key, would name another key.
func keyWord(name, id string) string {
	if name == "exec" || strings.Trim(strings.ToLower(name), "0123456789abcdef-…") == "" {
		return id
	}
	return cmp.Or(shellWord(name), id)
}

// hostWord names a host in a command to paste.
func hostWord(host string) string { return cmp.Or(shellWord(host), "HOST") }

// budgetKinds lists the parts of a budget that people are told of, the largest first.
var budgetKinds = []struct {
	percent uint64
	kind    NoticeKind
}{{100, NoticeBudget100}, {80, NoticeBudget80}, {50, NoticeBudget50}}

// part reports whether have is at least so many percent of most.
func part(have, most money.Amount, percent uint64) bool {
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
	if u.total != nil {
		return totalNotice(n, name, u, percent)
	}
	resets := u.period.End(row.Created)
	window, begins := u.period.Word(), endText(u.period, resets)
	layout := time.DateOnly
	if u.period == policy.Hour {
		layout = hourLayout
	}
	// A budget that was raised is told of anew.
	n.Once = fmt.Sprintf("budget/%s/%s/%s/%s/%s/%d", row.KeyID, u.rule, u.of, resets.Format(layout), u.most, percent)
	percent = u.percent(percent)
	n.Title = fmt.Sprintf("Key %s: %d %% of the %s budget%s is used", name, percent, window, u.of)
	n.Text = fmt.Sprintf("Key %s has used %d %% of its %s budget%s: %s of %s. The count starts again from zero at %s.",
		name, percent, window, u.of, money.Figure(u.with), money.Text(u.most), begins)
	if kind == NoticeBudget100 {
		n.Text += " Until then purser declines the payments that this budget has no room for."
	}
	n.Text += fmt.Sprintf(" You can raise the budget on the page of the key, or with purser limits %s.", keyWord(name, row.KeyID))
	n.Figures = map[string]string{
		"rule": u.rule, "percent": fmt.Sprint(percent), "used": money.Text(u.with), "limit": money.Text(u.most), "resets": resets.Format(time.RFC3339),
	}
	return n
}

// percent returns the part of the budget that is used; otherwise without one.
func (u budgetUse) percent(otherwise uint64) uint64 {
	if u.most.IsZero() {
		return otherwise
	}
	return new(big.Int).Div(new(big.Int).Mul(u.with.Big(), big.NewInt(100)), u.most.Big()).Uint64()
}

// totalNotice completes the notice of a task's total.
func totalNotice(n Notice, name string, u budgetUse, percent uint64) Notice {
	n.Once = fmt.Sprintf("budget/%s/%s/%s/%s/%s/%d", n.KeyID, u.rule, u.of, u.total.Begin.Format(totalLayout), u.most, percent)
	percent = u.percent(percent)
	n.Title = fmt.Sprintf("Key %s: %d %% of the total%s is used", name, percent, u.of)
	n.Text = fmt.Sprintf("Key %s has used %d %% of its total%s: %s of %s since %s.", name, percent, u.of, money.Figure(u.with), money.Text(u.most), Moment(u.total.Begin))
	if n.Kind == NoticeBudget100 {
		n.Text += " purser declines the payments that the total has no room for."
	}
	n.Text += fmt.Sprintf(" You can raise the total on the page of the key, or with purser limits %s.", keyWord(name, n.KeyID))
	n.Figures = map[string]string{"rule": u.rule, "percent": fmt.Sprint(percent), "used": money.Text(u.with), "limit": money.Text(u.most)}
	return n
}

// newHostNotice tells that a key pays a host for the first time.
func newHostNotice(name string, row *Payment) Notice {
	n := about(row, NoticeNewHost, row.Created)
	n.Once = "host/" + said(row) + row.KeyID + "/" + row.Host
	n.Title = fmt.Sprintf("Key %s pays a new host: %s", name, row.Host)
	n.Text = fmt.Sprintf("Key %s pays %s for the first time: %s to %s. If you do not know this seller, pause the key with purser keys pause %s, or forbid the host with purser limits %s --add-deny-host %s.",
		name, row.Host, money.Text(row.Terms.Amount), row.Terms.PayTo, keyWord(name, row.KeyID), keyWord(name, row.KeyID), hostWord(row.Host))
	n.Figures = figuresOf(row, map[string]string{"price": money.Text(row.Terms.Amount)})
	return n
}

// newPayeeNotice tells that a host that the key has paid asks to pay another address.
func newPayeeNotice(name string, row *Payment) Notice {
	n := about(row, NoticeNewPayee, row.Created)
	n.Once = payeeMark(row)
	n.Title = fmt.Sprintf("Key %s pays %s at a new address", name, row.Host)
	n.Text = fmt.Sprintf("%s asks key %s to pay %s to the address %s, which the key has never paid. If the seller has not announced a new address, pause the key with purser keys pause %s and ask the seller.",
		row.Host, name, money.Text(row.Terms.Amount), row.Terms.PayTo, keyWord(name, row.KeyID))
	n.Figures = figuresOf(row, map[string]string{"price": money.Text(row.Terms.Amount)})
	return n
}

func payeeMark(row *Payment) string {
	return "payee/" + row.KeyID + "/" + row.Terms.Network + "/" + row.Terms.PayTo.String()
}

// payeesMark says that the payees of a host are known.
func payeesMark(row *Payment) string { return "payees/" + said(row) + row.KeyID + "/" + row.Host }

// said sets apart the names of what a caller on REST has said of a host: its word makes no host known to
// the doors at which purser sends the requests.
func said(row *Payment) string {
	if row.Door.Dials() {
		return ""
	}
	return "said/"
}

// priceJump is the factor above an endpoint's last price from which on people are told.
const priceJump = 2

// priceNotice tells that an endpoint asks more than priceJump times what it was last paid.
func priceNotice(name string, row *Payment, last money.Amount) Notice {
	n := about(row, NoticePriceJump, row.Created)
	n.Once = string(row.Price) + "/" + row.Created.UTC().Format(time.DateOnly)
	n.Title = fmt.Sprintf("%s asks more than before", hostOf(row))
	n.Text = fmt.Sprintf("Key %s pays %s to %s for a request that cost %s the last time. To have purser decline such jumps, use purser limits %s --price-guard %d.",
		name, money.Text(row.Terms.Amount), hostOf(row), money.Text(last), keyWord(name, row.KeyID), priceJump)
	n.Figures = figuresOf(row, map[string]string{"price": money.Text(row.Terms.Amount), "last": money.Text(last)})
	return n
}

// disputedNotice tells that the chain disproves a settlement.
func disputedNotice(name string, p *Payment, at time.Time) Notice {
	n := about(p, NoticeDisputed, at)
	n.Title = fmt.Sprintf("A payment to %s is disputed", hostOf(p))
	n.Text = fmt.Sprintf("A receipt said that key %s had paid %s to %s, and the chain shows that this money did not move. purser no longer counts the amount as spent. Ask the seller why it sent the receipt. The payment is %s.",
		name, money.Text(p.Moved()), hostOf(p), p.ID)
	n.Figures = figuresOf(p, map[string]string{"amount": money.Text(p.Moved())})
	return n
}

// unresolvedNotice tells that a payment has expired without evidence.
func unresolvedNotice(name string, p *Payment, at time.Time) Notice {
	n := about(p, NoticeUnresolved, at)
	n.Title = fmt.Sprintf("A payment to %s is unresolved", hostOf(p))
	n.Text = fmt.Sprintf("Key %s sent a payment of %s to %s. Its time has run out, and purser cannot tell whether the money moved. Look on the chain whether it has left the wallet, then record it with purser payments resolve %s.",
		name, money.Text(p.Terms.Amount), hostOf(p), p.ID)
	n.Figures = figuresOf(p, map[string]string{"amount": money.Text(p.Terms.Amount)})
	return n
}

// unansweredNotice tells that a host takes payloads and answers none: it is told when unansweredRun of
// them ended so in a row.
func unansweredNotice(name string, p *Payment, at time.Time) Notice {
	n := about(p, NoticeUnansweredRun, at)
	n.Run, n.RunOf = unansweredMark(p), unansweredRun
	n.Once = "unanswered/" + p.KeyID + "/" + p.Host + "/" + at.UTC().Format(time.DateOnly)
	n.Title = fmt.Sprintf("%s has left %d payments in a row unanswered", hostOf(p), unansweredRun)
	n.Text = fmt.Sprintf("Key %s has sent %d payments in a row to %s and got no full answer to any of them. The last one is %s. The seller may have taken the money all the same. If this goes on, forbid the host with purser limits %s --add-deny-host %s.",
		name, unansweredRun, hostOf(p), money.Text(p.Terms.Amount), keyWord(name, p.KeyID), hostWord(p.Host))
	n.Figures = map[string]string{"run": fmt.Sprint(unansweredRun)}
	return n
}

// undeliveredNotice tells that a seller has the money of a payment and delivered nothing.
func undeliveredNotice(name string, p *Payment, earlier Deliveries, at time.Time) Notice {
	n := about(p, NoticeUndelivered, at)
	rate := Deliveries{Undelivered: earlier.Undelivered + 1, Of: earlier.Of + 1}
	n.Title = fmt.Sprintf("Paid and not delivered: %s to %s", money.Text(p.Moved()), hostOf(p))
	n.Text = fmt.Sprintf("Key %s has paid %s to %s, at %s, and %s. %s brought nothing. A repeat of the request sends the same payment again. The payment is %s. If this goes on, forbid the host with purser limits %s --add-deny-host %s.",
		name, money.Text(p.Moved()), hostOf(p), p.Terms.PayTo, p.Answer(), rate, p.ID, keyWord(name, p.KeyID), hostWord(p.Host))
	n.Figures = figuresOf(p, map[string]string{
		"amount": money.Text(p.Moved()), "status": fmt.Sprint(p.AnswerStatus), "undelivered": fmt.Sprint(rate.Undelivered), "of": fmt.Sprint(rate.Of),
	})
	return n
}

// hostPausedNotice tells that purser has paused a host for a key by itself.
func hostPausedNotice(name string, p *Payment, pause Pause) Notice {
	n := about(p, NoticePaused, pause.At)
	n.Once = fmt.Sprintf("host-paused/%s/%s/%d", p.KeyID, p.Host, pause.At.UnixMilli())
	n.Title = fmt.Sprintf("Key %s pays %s nothing more", name, hostOf(p))
	n.Text = fmt.Sprintf("purser has paused %s for key %s: %s. The last one is %s. To prove them, use purser payments dispute. To let the key pay this host again, use purser keys resume %s --host %s.", hostOf(p), name, pause.Reason, p.ID, keyWord(name, p.KeyID), hostWord(p.Host))
	n.Figures = map[string]string{"reason": pause.Reason}
	return n
}

// unansweredMark names the row of unanswered payments of a key to a host.
func unansweredMark(p *Payment) string { return "run/" + p.KeyID + "/" + p.Host }

// lowMark names the notice of a wallet that is low. It is forgotten when the wallet has enough again.
func lowMark(w Wallet, currency string) string { return "low/" + w.ID + "/" + currency }

// lowBalanceNotice tells that a wallet has less than its mark.
func lowBalanceNotice(name string, w Wallet, n x402.Network, once string, have, mark money.Amount, at time.Time) Notice {
	return Notice{
		At: at, Kind: NoticeLowBalance, Once: once, KeyID: w.KeyID, WalletID: w.ID,
		Title: fmt.Sprintf("The wallet of key %s on %s is low: %s", name, w.Network, money.Text(have)),
		Text: fmt.Sprintf("Key %s pays from the wallet %s on %s. It holds %s, which is less than %s. To refill it, send %s on %s to this address. purser tells this once, until the wallet has enough again.",
			name, w.Address, w.Network, money.Text(have), money.Text(mark), n.Tokens(), w.Network),
		Figures: map[string]string{"balance": money.Text(have), "mark": money.Text(mark), "network": w.Network, "address": w.Address.String()},
	}
}

// PauseNotice tells of a change of the pause of everything.
func PauseNotice(was, now *Pause, by Actor, at time.Time) []Notice {
	switch {
	case now != nil && was != nil && now.Reason == was.Reason:
		return nil
	case now != nil:
		n := Notice{At: now.At, Kind: NoticePaused, Title: "purser is paused", Figures: map[string]string{}}
		n.Text = "purser makes no new payments."
		if who := now.By.String(); who != "" {
			n.Text += " It was paused by the " + who + "."
			n.Figures["by"] = who
		}
		if now.Reason != "" {
			n.Text += " The reason: " + words.Quote(words.Of(now.Reason)) + "."
			n.Figures["reason"] = words.Of(now.Reason)
		}
		n.Text += " Payments that were sent before go on to their end. To let purser pay again, use purser resume."
		return []Notice{n}
	case was != nil:
		n := Notice{At: at, Kind: NoticeResumed, Title: "purser pays again", Text: "purser makes new payments again.", Figures: map[string]string{}}
		if who := by.String(); who != "" {
			n.Text += " The pause was ended by the " + who + "."
			n.Figures["by"] = who
		}
		n.Figures["paused_since"] = was.At.UTC().Format(time.RFC3339)
		return []Notice{n}
	}
	return nil
}

// CommitsLostNotice tells that the database has lost what was written after a time, and that payments wait for the chain.
func CommitsLostNotice(taken, at time.Time) Notice {
	return Notice{
		At: at, Kind: NoticeCommitsLost,
		Title: "The database has lost its newest commits",
		Text: fmt.Sprintf("The database of purser lacks what was written after %s, as after a failover to a standby that was behind. purser makes no new payments until it has read from the chain what was paid meanwhile, which takes some minutes. purser reconcile says how far it is. Keys, wallets, limits and pauses of that time are gone. To lose nothing, use synchronous replication.",
			taken.UTC().Format("2 January, 15:04:05 UTC")),
		Figures: map[string]string{"after": taken.UTC().Format(time.RFC3339)},
	}
}

// DeclinedNotice tells that a rule declines payments of a key, once in an hour.
func DeclinedNotice(name string, d Decline, at time.Time) Notice {
	rule := d.Reason
	host := cmp.Or(d.Tool, d.Host, "a host")
	n := Notice{
		At: at, Kind: NoticeDeclined, KeyID: d.KeyID, Host: d.Host,
		Once:  "declined/" + d.KeyID + "/" + rule + "/" + at.UTC().Format("2006-01-02T15"),
		Title: fmt.Sprintf("A payment of key %s to %s was declined", name, host),
		Text:  fmt.Sprintf("purser declined a payment of key %s to %s", name, host), Figures: map[string]string{"rule": rule},
	}
	if d.Price != nil {
		n.Text += " for " + money.Text(*d.Price)
		n.Figures["price"] = money.Text(*d.Price)
	}
	n.Text += " by the rule " + rule
	if d.Detail != "" {
		n.Text += ": " + words.Of(d.Detail)
	}
	n.Text += ". purser tells this at most once an hour for each key and rule. The page Declined of the dashboard counts all."
	return n
}

// ApprovalNotice tells that a payment waits for a person's approval.
func ApprovalNotice(name string, a Approval) Notice {
	host := cmp.Or(a.Host, "an unnamed host")
	n := Notice{
		At: a.Created, Kind: NoticeApproval, Once: "approval/" + a.ID, KeyID: a.KeyID, OrganizationID: a.OrganizationID, ApprovalID: a.ID,
		Host: a.Host, Payee: a.Terms.PayTo.String(),
		Title: fmt.Sprintf("Key %s asks to pay %s to %s", name, money.Text(a.Terms.Amount), host),
	}
	n.Text = fmt.Sprintf("Key %s asks to pay %s to %s on %s", name, money.Text(a.Terms.Amount), host, a.Terms.Network)
	if a.Task != "" {
		n.Text += " for task " + a.Task
	}
	n.Text += ", and purser waits for your word"
	if a.Detail != "" {
		n.Text += ": " + words.Of(a.Detail)
	}
	n.Text += fmt.Sprintf(". Approve or deny it before %s, on the page of approvals or with purser approvals. The approval is %s. Without an answer nothing is paid.",
		a.Expires.UTC().Format("2 January, 15:04 UTC"), a.ID)
	n.Figures = map[string]string{"price": money.Text(a.Terms.Amount), "network": a.Terms.Network, "expires": a.Expires.UTC().Format(time.RFC3339), "rule": a.Rule, "protocol": a.Terms.Protocol()}
	return n
}
