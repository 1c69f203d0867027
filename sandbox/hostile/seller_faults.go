package hostile

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/x402"
)

// whenPaid returns a fault in place of the answer to one payment.
func whenPaid(name string, do func(*Visit)) SellerFault {
	return SellerFault{Name: name, On: Paid, Do: do}
}

// afterSettling returns a fault that takes the money of one payment before it fails.
func afterSettling(name string, do func(*Visit)) SellerFault {
	return whenPaid(name, func(v *Visit) {
		v.Settle()
		do(v)
	})
}

// asking returns a fault in the terms of every challenge.
func asking(name string, change func(*Terms)) SellerFault {
	return SellerFault{Name: name, On: Unpaid, Always: true, Do: func(v *Visit) { v.Challenge("Payment required", change) }}
}

// delivering returns a fault in the receipt of one payment, which is settled.
func delivering(name string, change func(*x402.Receipt)) SellerFault {
	return whenPaid(name, func(v *Visit) {
		tx, _ := v.Settle()
		r := v.Receipt(tx)
		change(&r)
		v.Deliver(r)
	})
}

// status answers with a status and no body.
func status(code int) func(*Visit) { return func(v *Visit) { v.Status(code) } }

// Faults of a seller. Those with "after" in their names take the money before they fail.
var (
	HangsUpBefore = whenPaid("hangs up before settling", (*Visit).Reset)
	HangsUpAfter  = afterSettling("settles and hangs up", (*Visit).Reset)
	SilentBefore  = SellerFault{Name: "never answers and never settles", On: Paid, Hangs: true, Do: (*Visit).Hang}
	SilentAfter   = SellerFault{Name: "settles and never answers", On: Paid, Hangs: true, Do: func(v *Visit) {
		v.Settle()
		v.Hang()
	}}
	BrokenBefore = whenPaid("answers 502 before settling", status(http.StatusBadGateway))
	BrokenAfter  = afterSettling("settles and answers 500", status(http.StatusInternalServerError))
	// AsksAgainAfter sends a challenge to a client that has paid. The client must not pay it.
	AsksAgainAfter = afterSettling("settles and asks for the money again", asksAgain)
	AsksMoreAfter  = SellerFault{Name: "settles and asks for more", On: Paid, Always: true, Do: func(v *Visit) {
		v.Settle()
		v.Raise()
		v.Challenge("insufficient_funds")
	}}
	AsksAgainBefore = whenPaid("asks again before settling", asksAgain)
	BareAfter       = afterSettling("settles and answers 402 without a challenge", status(http.StatusPaymentRequired))
	DeniesReceipt   = whenPaid("settles and says in its receipt that it failed", func(v *Visit) {
		tx, _ := v.Settle()
		v.receipted(http.StatusPaymentRequired, x402.Receipt{
			Network: honest.WireNetwork(2), Transaction: tx, ErrorReason: honest.SettlementPending,
		}, []byte("{}"))
	})

	PriceDrifts = SellerFault{Name: "asks for another price each time", On: Unpaid, Always: true, Do: raises}
	PriceMoves  = SellerFault{Name: "has another price when it is paid", On: Paid, Always: true, Do: raises}

	OtherAsset   = asking("wants another token", func(t *Terms) { t.Asset = "0x1111111111111111111111111111111111111111" })
	OtherNetwork = asking("wants another network", func(t *Terms) { t.Network = "eip155:1" })
	OtherDomain  = asking("names another EIP-712 domain", func(t *Terms) { t.Extra.Name = "Not USD Coin" })
	OtherScheme  = asking("wants another scheme", func(t *Terms) { t.Scheme = "blank-cheque" })
	HugeAmount   = asking("wants all the money there is", func(t *Terms) {
		t.Amount = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
	})
	NoAmount         = asking("names no amount", func(t *Terms) { t.Amount = "" })
	NothingAsked     = asking("wants an amount of 0", func(t *Terms) { t.Amount = "0" })
	FatChallenge     = asking("asks at great length", func(t *Terms) { t.Extra.Memo = strings.Repeat("x", 30<<10) })
	NoTime           = asking("gives a second's time", func(t *Terms) { t.MaxTimeoutSeconds = 1 })
	EndlessChallenge = SellerFault{Name: "asks without end", On: Unpaid, Always: true, Do: func(v *Visit) {
		v.w.WriteHeader(http.StatusPaymentRequired)
		endless(v.w, v.r, `{"x402Version":1,"accepts":[`)
	}}
	ManyRequirements = SellerFault{Name: "offers a thousand ways to pay", On: Unpaid, Always: true, Do: func(v *Visit) {
		terms := make([]Terms, 1000)
		for i := range terms {
			terms[i] = Terms{Scheme: honest.Scheme, Network: "eip155:" + strconv.Itoa(10_000+i), Amount: "1"}
		}
		v.challengeWith("Payment required", terms...)
	}}

	InventsReceipt = whenPaid("delivers with an invented receipt and never settles", func(v *Visit) {
		v.Deliver(v.Receipt(inventTransaction()))
	})
	AnothersReceipt = whenPaid("shows somebody else's transaction and never settles", func(v *Visit) {
		v.Deliver(v.Receipt(v.seller.foreign))
	})
	OtherPayer = delivering("names another payer in its receipt", func(r *x402.Receipt) {
		r.Payer = "0x2222222222222222222222222222222222222222"
	})
	SmallerAmount = delivering("names a smaller amount in its receipt", func(r *x402.Receipt) {
		one := money.New(1)
		r.Amount = &one
	})
	OtherChainReceipt = delivering("names another network in its receipt", func(r *x402.Receipt) { r.Network = "eip155:1" })
	NonsenseReceipt   = afterSettling("sends a receipt that nobody can read", func(v *Visit) {
		v.w.Header().Set(x402.HeaderResponse, "\xff\xfe not base64 at all")
		v.Status(http.StatusOK)
	})
	NoReceipt = afterSettling("delivers without a receipt", status(http.StatusOK))

	Redirects      = whenPaid("redirects the payment to a thief", redirecting(http.StatusTemporaryRedirect))
	RedirectsFirst = SellerFault{
		Name: "redirects to a thief before it was paid", On: Unpaid, Do: redirecting(http.StatusPermanentRedirect),
	}
	TakesLate = SellerFault{Name: "answers 504, and settles when everybody is gone", On: Paid, Always: true, Do: func(v *Visit) {
		v.Later()
		v.Status(http.StatusGatewayTimeout)
	}}
	TakesTwice = whenPaid("settles twice", func(v *Visit) {
		tx, _ := v.Settle()
		v.Settle()
		v.Deliver(v.Receipt(tx))
	})
	// Preempted delivers to another party that captured the payload on its way and was faster.
	Preempted = afterSettling("delivers to somebody who captured the payment", func(v *Visit) {
		v.Challenge(honest.NonceUsed)
	})
	StrangeHeaders = whenPaid("delivers with headers that are not ASCII", func(v *Visit) {
		tx, _ := v.Settle()
		v.w.Header().Set("X-Seller", "caf\xe9 \xff ünïcödé")
		v.Deliver(v.Receipt(tx))
	})
	EndlessGoods = whenPaid("delivers without end", func(v *Visit) {
		tx, _ := v.Settle()
		v.w.Header().Set(x402.HeaderResponse, honest.InHeader(v.Receipt(tx)))
		endless(v.w, v.r, "{")
	})
	EndlessRefusal = afterSettling("settles and refuses without end", func(v *Visit) {
		v.w.WriteHeader(http.StatusPaymentRequired)
		endless(v.w, v.r, `{"x402Version":1,"error":"`)
	})
	CutGoods = whenPaid("settles and cuts the goods off in the middle", func(v *Visit) {
		tx, _ := v.Settle()
		v.w.Header().Set(x402.HeaderResponse, honest.InHeader(v.Receipt(tx)))
		v.w.Header().Set("Content-Length", "1000")
		v.w.WriteHeader(http.StatusOK)
		_, _ = v.w.Write([]byte(`{"order":`))
		panic(http.ErrAbortHandler)
	})
)

func asksAgain(v *Visit) { v.Challenge("Payment required") }

func raises(v *Visit) {
	v.Raise()
	v.Serve()
}

func redirecting(code int) func(*Visit) {
	return func(v *Visit) {
		v.w.Header().Set("Location", v.seller.thief)
		v.Status(code)
	}
}
