package hostile

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/purserpay/purser/x402"
)

// Faults of a seller. Those with "after" in their names take the money before they fail.
var (
	HangsUpBefore = SellerFault{Name: "hangs up before settling", On: Paid, Do: (*Visit).Reset}
	HangsUpAfter  = SellerFault{Name: "settles and hangs up", On: Paid, Do: func(v *Visit) { v.Settle(); v.Reset() }}
	SilentBefore  = SellerFault{Name: "never answers and never settles", On: Paid, Hangs: true, Do: (*Visit).Hang}
	SilentAfter   = SellerFault{Name: "settles and never answers", On: Paid, Hangs: true, Do: func(v *Visit) { v.Settle(); v.Hang() }}
	BrokenBefore  = SellerFault{Name: "answers 502 before settling", On: Paid, Do: func(v *Visit) { v.Status(http.StatusBadGateway) }}
	BrokenAfter   = SellerFault{Name: "settles and answers 500", On: Paid, Do: func(v *Visit) {
		v.Settle()
		v.Status(http.StatusInternalServerError)
	}}
	// AsksAgainAfter sends a challenge to a client that has paid. The client must not pay it.
	AsksAgainAfter = SellerFault{Name: "settles and asks for the money again", On: Paid, Do: func(v *Visit) {
		v.Settle()
		v.Challenge("Payment required")
	}}
	AsksMoreAfter = SellerFault{Name: "settles and asks for more", On: Paid, Always: true, Do: func(v *Visit) {
		v.Settle()
		v.Raise()
		v.Challenge("insufficient_funds")
	}}
	AsksAgainBefore = SellerFault{Name: "asks again before settling", On: Paid, Do: func(v *Visit) { v.Challenge("Payment required") }}
	BareAfter       = SellerFault{Name: "settles and answers 402 without a challenge", On: Paid, Do: func(v *Visit) {
		v.Settle()
		v.Status(http.StatusPaymentRequired)
	}}
	DeniesReceipt = SellerFault{Name: "settles and says in its receipt that it failed", On: Paid, Do: func(v *Visit) {
		tx, _ := v.Settle()
		v.receipted(http.StatusPaymentRequired, x402.Receipt{
			Network: network().CAIP2(), Transaction: tx, ErrorReason: "settlement_pending",
		}, []byte("{}"))
	}}

	PriceDrifts = SellerFault{Name: "asks for another price each time", On: Unpaid, Always: true, Do: func(v *Visit) {
		v.Raise()
		v.Serve()
	}}
	PriceMoves = SellerFault{Name: "has another price when it is paid", On: Paid, Always: true, Do: func(v *Visit) {
		v.Raise()
		v.Serve()
	}}

	OtherAsset = SellerFault{Name: "wants another token", On: Unpaid, Always: true, Do: func(v *Visit) {
		v.Challenge("Payment required", func(t *Terms) { t.Asset = "0x1111111111111111111111111111111111111111" })
	}}
	OtherNetwork = SellerFault{Name: "wants another network", On: Unpaid, Always: true, Do: func(v *Visit) {
		v.Challenge("Payment required", func(t *Terms) { t.Network = "eip155:1" })
	}}
	OtherDomain = SellerFault{Name: "names another EIP-712 domain", On: Unpaid, Always: true, Do: func(v *Visit) {
		v.Challenge("Payment required", func(t *Terms) { t.Name = "Not USD Coin" })
	}}
	OtherScheme = SellerFault{Name: "wants another scheme", On: Unpaid, Always: true, Do: func(v *Visit) {
		v.Challenge("Payment required", func(t *Terms) { t.Scheme = "blank-cheque" })
	}}
	HugeAmount = SellerFault{Name: "wants all the money there is", On: Unpaid, Always: true, Do: func(v *Visit) {
		v.Challenge("Payment required", func(t *Terms) {
			t.Amount = "115792089237316195423570985008687907853269984665640564039457584007913129639935"
		})
	}}
	NoAmount = SellerFault{Name: "names no amount", On: Unpaid, Always: true, Do: func(v *Visit) {
		v.Challenge("Payment required", func(t *Terms) { t.Amount = "" })
	}}
	NothingAsked = SellerFault{Name: "wants an amount of 0", On: Unpaid, Always: true, Do: func(v *Visit) {
		v.Challenge("Payment required", func(t *Terms) { t.Amount = "0" })
	}}
	FatChallenge = SellerFault{Name: "asks at great length", On: Unpaid, Always: true, Do: func(v *Visit) {
		v.Challenge("Payment required", func(t *Terms) { t.Memo = strings.Repeat("x", 30<<10) })
	}}
	NoTime = SellerFault{Name: "gives a second's time", On: Unpaid, Always: true, Do: func(v *Visit) {
		v.Challenge("Payment required", func(t *Terms) { t.MaxTimeout = 1 })
	}}
	EndlessChallenge = SellerFault{Name: "asks without end", On: Unpaid, Always: true, Do: func(v *Visit) {
		v.w.WriteHeader(http.StatusPaymentRequired)
		endless(v.w, v.r, `{"x402Version":1,"accepts":[`)
	}}
	ManyRequirements = SellerFault{Name: "offers a thousand ways to pay", On: Unpaid, Always: true, Do: func(v *Visit) {
		terms := make([]Terms, 1000)
		for i := range terms {
			terms[i] = Terms{Scheme: "exact", Network: "eip155:" + strconv.Itoa(10_000+i), Amount: "1"}
		}
		v.challengeWith("Payment required", terms...)
	}}

	InventsReceipt = SellerFault{Name: "delivers with an invented receipt and never settles", On: Paid, Do: func(v *Visit) {
		v.Deliver(v.Receipt(inventTransaction()))
	}}
	AnothersReceipt = SellerFault{Name: "shows somebody else's transaction and never settles", On: Paid, Do: func(v *Visit) {
		v.Deliver(v.Receipt(v.seller.o.Foreign))
	}}
	OtherPayer = SellerFault{Name: "names another payer in its receipt", On: Paid, Do: func(v *Visit) {
		tx, _ := v.Settle()
		r := v.Receipt(tx)
		r.Payer = "0x2222222222222222222222222222222222222222"
		v.Deliver(r)
	}}
	SmallerAmount = SellerFault{Name: "names a smaller amount in its receipt", On: Paid, Do: func(v *Visit) {
		tx, _ := v.Settle()
		r := v.Receipt(tx)
		one := x402.NewAmount(1)
		r.Amount = &one
		v.Deliver(r)
	}}
	OtherChainReceipt = SellerFault{Name: "names another network in its receipt", On: Paid, Do: func(v *Visit) {
		tx, _ := v.Settle()
		r := v.Receipt(tx)
		r.Network = "eip155:1"
		v.Deliver(r)
	}}
	NonsenseReceipt = SellerFault{Name: "sends a receipt that nobody can read", On: Paid, Do: func(v *Visit) {
		v.Settle()
		v.w.Header().Set(x402.HeaderResponse, "\xff\xfe not base64 at all")
		v.Status(http.StatusOK)
	}}
	NoReceipt = SellerFault{Name: "delivers without a receipt", On: Paid, Do: func(v *Visit) {
		v.Settle()
		v.Status(http.StatusOK)
	}}

	Redirects = SellerFault{Name: "redirects the payment to a thief", On: Paid, Do: func(v *Visit) {
		v.w.Header().Set("Location", v.seller.o.Thief)
		v.Status(http.StatusTemporaryRedirect)
	}}
	RedirectsFirst = SellerFault{Name: "redirects to a thief before it was paid", On: Unpaid, Do: func(v *Visit) {
		v.w.Header().Set("Location", v.seller.o.Thief)
		v.Status(http.StatusPermanentRedirect)
	}}
	TakesLate = SellerFault{Name: "answers 504, and settles when everybody is gone", On: Paid, Always: true, Do: func(v *Visit) {
		v.Later()
		v.Status(http.StatusGatewayTimeout)
	}}
	TakesTwice = SellerFault{Name: "settles twice", On: Paid, Do: func(v *Visit) {
		tx, _ := v.Settle()
		v.Settle()
		v.Deliver(v.Receipt(tx))
	}}
	// Preempted delivers to another party that captured the payload on its way and was faster.
	Preempted = SellerFault{Name: "delivers to somebody who captured the payment", On: Paid, Do: func(v *Visit) {
		v.Settle()
		v.Challenge("invalid_exact_evm_nonce_already_used")
	}}
	StrangeHeaders = SellerFault{Name: "delivers with headers that are not ASCII", On: Paid, Do: func(v *Visit) {
		tx, _ := v.Settle()
		v.w.Header().Set("X-Seller", "caf\xe9 \xff ünïcödé")
		v.Deliver(v.Receipt(tx))
	}}
	EndlessGoods = SellerFault{Name: "delivers without end", On: Paid, Do: func(v *Visit) {
		tx, _ := v.Settle()
		v.w.Header().Set(x402.HeaderResponse, inHeader(v.Receipt(tx)))
		endless(v.w, v.r, "{")
	}}
	EndlessRefusal = SellerFault{Name: "settles and refuses without end", On: Paid, Do: func(v *Visit) {
		v.Settle()
		v.w.WriteHeader(http.StatusPaymentRequired)
		endless(v.w, v.r, `{"x402Version":1,"error":"`)
	}}
	CutGoods = SellerFault{Name: "settles and cuts the goods off in the middle", On: Paid, Do: func(v *Visit) {
		tx, _ := v.Settle()
		v.w.Header().Set(x402.HeaderResponse, inHeader(v.Receipt(tx)))
		v.w.Header().Set("Content-Length", "1000")
		v.w.WriteHeader(http.StatusOK)
		_, _ = v.w.Write([]byte(`{"order":`))
		panic(http.ErrAbortHandler)
	}}
)
