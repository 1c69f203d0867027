package dashboard

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/treasury"
	"github.com/purserpay/purser/x402"
)

// errOperatorsMoney: the wallet is of a key that the operator made.
var errOperatorsMoney = errors.New("only an operator withdraws from this wallet")

type withdrawPage struct {
	walletHead
	To, Amount   string // as typed
	All          bool
	Balance      *balance
	Wrongs       map[string]*wrong
	General      *wrong  // of no field
	WhyNot       string  // nothing can be withdrawn here
	Command      command // what the operator runs instead
	OrderExpired bool
}

// cannotSign says why a wallet cannot sign a transfer, or "".
func (d *dashboard) cannotSign(w pay.Wallet) string {
	provider, _, _ := strings.Cut(w.ProviderID, "_")
	switch {
	case w.Address == nil:
		return "This wallet has no address, and holds nothing."
	case provider != d.Books.Provider():
		return "Its key is with the wallet provider " + cut(provider, maxName) + ", and this purser now uses " + d.Books.Provider() + ". It cannot sign for this wallet."
	}
	return ""
}

// mayWithdraw refuses an owner the money of the operator.
func mayWithdraw(v visit, k pay.Key) error {
	if k.Operator && !v.operator() {
		return errOperatorsMoney
	}
	return nil
}

// withdrawForm serves GET /dashboard/wallets/{id}/withdraw.
func (d *dashboard) withdrawForm(r *http.Request, v visit, w pay.Wallet, k pay.Key) (answer, error) {
	if err := mayWithdraw(v, k); err != nil {
		return answer{}, err
	}
	return d.withdrawWith(r.Context(), v, w, k, http.StatusOK, withdrawPage{})
}

func (d *dashboard) withdrawWith(ctx context.Context, v visit, w pay.Wallet, k pay.Key, status int, p withdrawPage) (answer, error) {
	p.walletHead, p.WhyNot = d.walletHead(v, w, k), d.cannotSign(w)
	if p.WhyNot == "" && !treasury.Of(d.Payer).SendsWithdrawals(w.Network) {
		p.WhyNot = "This purser has no facilitator that sends a transfer to the chain. It can only sign one, for an account that pays the gas."
		p.Command = command{ID: "sign-only", What: "the command that signs a transfer", Text: "purser wallets withdraw " + w.ID + " --to 0x… --all --sign-only"}
	}
	if p.WhyNot == "" {
		b, err := d.balanceOf(ctx, w, v.now, balanceWait)
		if err != nil {
			return answer{}, err
		}
		p.Balance = &b
	}
	return answer{status: status, page: "withdraw", title: "Withdraw from a wallet", nav: "/dashboard/wallets", body: p}, nil
}

// withdrawReview is the page between form and sending.
type withdrawReview struct {
	walletHead
	Order, Amount, To, Typed string
	TypedAll                 bool
	Sum                      amount
	Left                     *amount // what the wallet then has; nil: unknown
	Holds, Reserved          *amount
	Unknown                  bool
	Own                      *link // the purser's own wallet that gets it
	Repeats                  *earlierWithdrawal
	Minutes                  string
}

// earlierWithdrawal is an equal one of the last hour.
type earlierWithdrawal struct {
	When    moment
	Path    string
	Settled bool
}

// orderWithdrawal serves POST /dashboard/wallets/{id}/withdraw: it checks what was typed, and shows what
// would be sent.
func (d *dashboard) orderWithdrawal(r *http.Request, v visit, w pay.Wallet, k pay.Key) (answer, error) {
	if err := mayWithdraw(v, k); err != nil {
		return answer{}, err
	}
	form := r.PostForm
	p := withdrawPage{To: cut(strings.TrimSpace(form.Get("to")), 100), Amount: cut(strings.TrimSpace(form.Get("amount")), 100), All: form.Get("all") != ""}
	if form.Get("do") == "edit" || d.cannotSign(w) != "" || !treasury.Of(d.Payer).SendsWithdrawals(w.Network) {
		return d.withdrawWith(r.Context(), v, w, k, http.StatusOK, p)
	}
	what, wrongs := readWithdrawal(p)
	if len(wrongs) > 0 {
		p.Wrongs = wrongs
		return d.withdrawWith(r.Context(), v, w, k, http.StatusUnprocessableEntity, p)
	}
	what.Wallet, what.Again = w, form.Get("again") != ""
	if p.All {
		free, why, err := d.free(r.Context(), w)
		if err != nil {
			return answer{}, err
		}
		if what.Amount = &free; why != "" {
			p.Wrongs = map[string]*wrong{"amount": {Field: "amount", Text: why}}
			return d.withdrawWith(r.Context(), v, w, k, http.StatusUnprocessableEntity, p)
		}
	}
	plan, err := treasury.Of(d.Payer).PlanWithdrawal(r.Context(), what)
	if err != nil {
		return d.withdrawalRefused(r.Context(), v, w, k, p, err)
	}
	return d.reviewWithdrawal(r.Context(), v, w, k, p, what, plan)
}

// readWithdrawal reads what was typed.
func readWithdrawal(p withdrawPage) (what treasury.Withdrawal, wrongs map[string]*wrong) {
	wrongs = map[string]*wrong{}
	bad := func(field, text string) { wrongs[field] = &wrong{Field: field, Text: text} }
	to, err := x402.ParseCheckedAddress(p.To)
	switch {
	case p.To == "":
		bad("to", "Type the address that gets the money.")
	case err != nil:
		bad("to", sentence(err.Error()))
	}
	what.To = to
	switch {
	case p.All && p.Amount != "":
		bad("amount", "Either an amount, or all of it.")
	case p.All:
	case p.Amount == "":
		bad("amount", "Type an amount, or choose all of it.")
	default:
		amount, err := money.ParseUnits(p.Amount, decimals)
		if err != nil {
			bad("amount", "This is no amount in USDC: "+err.Error()+".")
		}
		what.Amount = &amount
	}
	return what, wrongs
}

// free returns all that can be withdrawn, or why that is nothing.
func (d *dashboard) free(ctx context.Context, w pay.Wallet) (all money.Amount, why string, err error) {
	h, err := d.Payer.Holdings(ctx, w)
	if err != nil {
		return all, "", err
	}
	all, known := h.Free()
	switch {
	case !known:
		d.Logger.Warn("balance not known", "wallet", w.ID, "error", h.Unknown)
		why = "The chain does not tell what the wallet holds at the moment, so type an amount."
	case all.IsZero() && !h.Reserved.IsZero():
		why = "Nothing can be withdrawn now: " + amountOf(h.Reserved, false, h.Asset.Symbol).String() + " is reserved for open payments."
	case all.IsZero():
		why = "The wallet is empty."
	}
	return all, why, nil
}

// withdrawalRefused shows the form again with what is wrong.
func (d *dashboard) withdrawalRefused(ctx context.Context, v visit, w pay.Wallet, k pay.Key, p withdrawPage, err error) (answer, error) {
	input, is := errors.AsType[*pay.InputError](err)
	switch {
	case is && (input.Field == "to" || input.Field == "amount"):
		p.Wrongs = map[string]*wrong{input.Field: {Field: input.Field, Text: sentence(input.Reason)}}
	case is:
		p.General = &wrong{Text: sentence(input.Reason)}
	default:
		return answer{}, err
	}
	return d.withdrawWith(ctx, v, w, k, http.StatusUnprocessableEntity, p)
}

// sentence makes a sentence of a message.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

func (d *dashboard) reviewWithdrawal(ctx context.Context, v visit, w pay.Wallet, k pay.Key, typed withdrawPage, what treasury.Withdrawal, plan treasury.WithdrawalPlan) (answer, error) {
	p := withdrawReview{
		walletHead: d.walletHead(v, w, k), To: what.To.String(), Typed: typed.Amount, TypedAll: typed.All,
		Sum: amountOf(plan.Amount, false, plan.Asset.Symbol), Unknown: plan.Balance == nil, Minutes: count(int(plan.Valid / time.Minute)),
	}
	if plan.Balance != nil {
		p.Holds = new(amountOf(*plan.Balance, false, plan.Asset.Symbol))
		if left, under := plan.Balance.Sub(plan.Amount); !under {
			p.Left = new(amountOf(left, false, plan.Asset.Symbol))
		}
	}
	if !plan.Reserved.IsZero() {
		p.Reserved = new(amountOf(plan.Reserved, false, plan.Asset.Symbol))
	}
	if plan.Repeats != nil {
		p.Repeats = &earlierWithdrawal{momentOf(plan.Repeats.Created, inText), withdrawnPath(w.ID, plan.Repeats.ID), plan.Repeats.State == pay.Settled}
	}
	own, err := d.Books.WalletByAddress(ctx, what.To)
	switch {
	case err == nil:
		if _, err := d.Books.WalletIn(ctx, v.scope(), own.ID); err == nil {
			p.Own = &link{walletName(own), walletPath(own.ID)}
		}
	case !errors.Is(err, pay.ErrWalletNotFound):
		return answer{}, err
	}
	if p.Order = d.orders.add(v, what); p.Order == "" {
		return answer{}, &tooManyError{time.Minute}
	}
	return answer{page: "withdraw-review", title: "Review a withdrawal", nav: "/dashboard/wallets", body: p}, nil
}

func withdrawnPath(walletID, paymentID string) string {
	return walletPath(walletID) + "/withdrawn?" + url.Values{"payment": {paymentID}}.Encode()
}

type withdrawWait struct {
	walletHead
	Order string
}

// sendWithdrawal serves POST /dashboard/wallets/{id}/withdraw/send. It sends what was reviewed, once
// however often the form comes, and answers when the transfer is in a block.
func (d *dashboard) sendWithdrawal(r *http.Request, v visit, w pay.Wallet, k pay.Key) (answer, error) {
	if err := mayWithdraw(v, k); err != nil {
		return answer{}, err
	}
	id := r.PostForm.Get("order")
	o, ok := d.orders.of(v, id, w.ID)
	if !ok {
		return d.withdrawWith(r.Context(), v, w, k, http.StatusConflict, withdrawPage{OrderExpired: true})
	}
	select {
	case o.sending <- struct{}{}:
		defer func() { <-o.sending }()
	case <-r.Context().Done():
		return answer{page: "withdraw-wait", title: "Sending", nav: "/dashboard/wallets", body: withdrawWait{d.walletHead(v, w, k), id}}, nil
	}
	if o.payment != "" {
		return answer{redirect: withdrawnPath(w.ID, o.payment)}, nil
	}
	// A person who has said yes gets it done, although the browser leaves: less is left open so.
	ctx := context.WithoutCancel(r.Context())
	out, err := treasury.Of(d.Payer).Withdraw(ctx, o.what)
	if p := begunBy(out, err); p != nil {
		o.payment = p.ID
		d.Logger.Info("withdrawal ordered on the dashboard", "payment", p.ID, "wallet", w.ID, "state", string(p.State), "by", v.Actor().String(), "error", err)
		return answer{redirect: withdrawnPath(w.ID, p.ID)}, nil
	}
	typed := withdrawPage{To: o.what.To.String(), Amount: o.what.Amount.Format(decimals)}
	looking, cancel := context.WithTimeout(ctx, pageTime)
	defer cancel()
	return d.withdrawalRefused(looking, v, w, k, typed, err)
}

// begunBy returns the payment of a withdrawal, also of one that failed; nil: none was begun.
func begunBy(out pay.Withdrawn, err error) *pay.Payment {
	if out.Payment != nil {
		return out.Payment
	}
	if f, is := errors.AsType[*pay.FailedError](err); is {
		return f.Payment
	}
	if open, is := errors.AsType[*pay.OpenError](err); is {
		return open.Payment
	}
	return nil
}

type withdrawnPage struct {
	walletHead
	Title, Story string
	Waits        bool // it is not known yet what became of it
	Again        string
	Sum          amount
	To           string
	State        state
	When         moment
	Valid        moment
	Transaction  transaction
	PaymentPath  string
	Notes        []noted
	Balance      *balance
}

// withdrawn serves GET /dashboard/wallets/{id}/withdrawn?payment=, the result of a withdrawal.
func (d *dashboard) withdrawn(r *http.Request, v visit, w pay.Wallet, k pay.Key) (answer, error) {
	id := r.URL.Query().Get("payment")
	if !isID(id) {
		return answer{}, errNotFound
	}
	one, err := d.Books.PaymentIn(r.Context(), v.scope(), id)
	if err != nil {
		return answer{}, err
	}
	if one.WalletID != w.ID || !one.Withdraws() {
		return answer{}, errNotFound
	}
	p := withdrawnPage{
		walletHead: d.walletHead(v, w, k), Again: withdrawnPath(w.ID, one.ID), Sum: amountOf(one.Moved(), false, one.Currency), To: one.Terms.PayTo.String(),
		State: stateOf(one), When: momentOf(one.Created, inText), Valid: momentOf(one.ValidBefore(), inText),
		Transaction: d.transaction(one.Terms.Network, one.Transaction), PaymentPath: "/dashboard/payments/" + one.ID,
	}
	if p.Transaction.Full != "" {
		p.Transaction.Text = p.Transaction.Full
	}
	p.Title, p.Story, p.Waits = withdrawalStory(one, v.now)
	for _, n := range one.Notes {
		p.Notes = append(p.Notes, noted{momentOf(n.At, "2 Jan, 15:04:05"), cut(n.Text, 500)})
	}
	b, err := d.balanceOf(r.Context(), w, v.now, balanceWait)
	if err != nil {
		return answer{}, err
	}
	p.Balance = &b
	return answer{page: "withdrawn", title: p.Title, nav: "/dashboard/wallets", body: p}, nil
}

// withdrawalStory says what became of a withdrawal, and whether that can still change soon.
func withdrawalStory(p *pay.Payment, now time.Time) (title, story string, waits bool) {
	switch {
	case p.Disputed:
		return "The money has not moved", "The facilitator reported a transfer, and the chain shows none. purser has taken it back in its books. Ask the facilitator's operator before you withdraw again.", false
	case p.State == pay.Settled && p.Confirmed:
		return "The money has moved", "purser has seen the transfer on the chain, past the time when that could change.", false
	case p.State == pay.Settled:
		return "The money has moved", "The transfer is in a block. purser looks at it once more when it can no longer change.", false
	case p.State == pay.Void && !p.Doubted:
		return "No money has moved", "The transfer was not sent, and cannot be sent any more. You can order it again.", false
	case now.Before(p.ValidBefore()):
		return "It is not known yet", "The transfer was signed, and it may still move the money until " + momentOf(p.ValidBefore(), inText).Text + ". If you order the same withdrawal again, purser goes on with this one and makes no second one.", true
	}
	return "It is not known yet", "The transfer has expired. purser asks the chain whether it moved the money, some minutes after that time. Until then, an equal withdrawal is refused.", true
}
