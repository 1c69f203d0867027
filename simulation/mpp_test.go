package simulation

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/purserpay/purser/x402"
)

// mppMix says which sellers speak MPP, and how they rotate their challenges. It has draws of its own, so that the
// other ones of a seed stay.
type mppMix struct {
	mpp    int           // of 100 orders, those whose seller speaks MPP
	both   int           // of 100 challenges of these sellers, those beside or in the place of which x402 is offered
	brief  int           // of 100 challenges, those that end soon, or have ended
	binds  int           // of 100 challenges to requests with a body, those that bind it
	errs   int           // of 100 of these, those that bind another body
	twins  time.Duration // in which all orders get one id; 0: each challenge has its own
	insist []string      // further ways to treat a credential
	styles uint64        // from which sellers and agents of an order draw their habits
}

// mppStream is the second half of the seed by which sellers of MPP are drawn. By it the seeds of [TestFormerFailures]
// have none.
const mppStream = 3

func drawMPP(luck *rand.Rand, m mix) (p mppMix) {
	// Without an idempotency key, a restored backup does not know which of the keys that share a wallet has paid where a
	// challenge has chosen the nonce, and a clock that jumps forgets orders.
	if luck.IntN(2) == 0 || m.restores > 0 && (m.jumps > 0 || m.lent) {
		return mppMix{}
	}
	some := func() int { return []int{0, 30, 100}[luck.IntN(3)] }
	p = mppMix{mpp: 50 + 50*luck.IntN(2), both: some(), brief: []int{0, 0, 30}[luck.IntN(3)], binds: some(), errs: 10 * luck.IntN(2), styles: luck.Uint64()}
	if luck.IntN(2) == 0 {
		p.twins = time.Duration(1+luck.IntN(20)) * time.Second
	}
	for _, t := range []string{forbids, movesAndForbids, holdsAndForbids, refuses, movesAndAsks, holdsAndRefuses} {
		for range luck.IntN(4) {
			p.insist = append(p.insist, t)
		}
	}
	return p
}

// Further ways in which sellers of MPP treat a credential.
const (
	forbids         = "says that it is used"
	movesAndForbids = "moves the money, and says that it is used"
	holdsAndForbids = "keeps the payload, and says that it is used"
)

// habit holds what stays the same about an order whose seller speaks MPP.
type habit struct {
	is     bool
	header string // that the seller names for the credential; ""
	own    bool   // the agent has a credential of its own in Authorization
	meta   bool   // a tool asks in the result, and not by an error
	used   int    // how the seller answers a credential that it has settled
}

// mppOf returns the habits of an order.
func (m mix) mppOf(order int) (h habit) {
	luck := rand.New(rand.NewPCG(m.styles, uint64(order)))
	if h.is = luck.IntN(100) < m.mpp; h.is {
		h.header = []string{"", "", "Authorization", "Payment-Authorization"}[luck.IntN(4)]
		h.own, h.meta, h.used = luck.IntN(5) == 0, luck.IntN(3) == 0, luck.IntN(3)
	}
	return h
}

// ownCredential returns the value that the agent of an order has in Authorization.
func ownCredential(order int) string { return fmt.Sprint("Bearer agent-", order) }

const (
	realm           = "mpp.seller.example"
	paymentOf       = "Payment "
	verifyFail      = "verification-failed"
	headerChallenge = "WWW-Authenticate"
	headerReceipt   = "Payment-Receipt"
)

// challenge asks for a payment in the words of MPP.
type challenge struct {
	ID      string `json:"id"`
	Realm   string `json:"realm"`
	Method  string `json:"method"`
	Intent  string `json:"intent"`
	Request string `json:"request"`
	Digest  string `json:"digest,omitempty"`
	Expires string `json:"expires,omitempty"`
	Opaque  string `json:"opaque,omitempty"`
	Header  string `json:"header,omitempty"`
}

// nonce is that of the authorization which answers the challenge.
func (c challenge) nonce() x402.Nonce { return x402.Nonce(x402.Keccak256([]byte(c.ID + c.Realm))) }

// issued names a challenge that a seller remembers. Twins have one id, for other orders.
type issued struct {
	order int
	id    string
}

// chargeOf returns the request of a challenge.
func chargeOf(order int) string {
	usdc := x402.DefaultNetworks()[0].Assets[0]
	text, _ := json.Marshal(map[string]any{
		"amount": fmt.Sprint(priceOf(order)), "currency": usdc.Address.String(), "recipient": sellerAddress,
		"methodDetails": map[string]any{"chainId": 8453, "credentialTypes": []string{"authorization"}, "decimals": 6},
	})
	return string(text)
}

// fresh makes a challenge for an order.
func (v *way) fresh(r *http.Request, order int, luck *rand.Rand) challenge {
	now, h := time.Now(), v.mix.mppOf(order)
	end := now.Add(5*time.Minute + time.Duration(luck.Int64N(int64(time.Minute))))
	c := challenge{
		ID: fmt.Sprintf("%016x%016x", luck.Uint64(), luck.Uint64()), Realm: realm, Method: "evm", Intent: "charge",
		Request: chargeOf(order), Header: h.header,
	}
	if toolOf(r) == nil {
		c.Request = base64.RawURLEncoding.EncodeToString([]byte(c.Request))
	} else {
		c.Header = ""
	}
	if luck.IntN(2) == 0 {
		c.Opaque = base64.RawURLEncoding.EncodeToString([]byte(`{"n":"1"}`))
	}
	body := bodyOf(r)
	if brief := luck.IntN(100) < v.mix.brief; brief && !v.calm() {
		end = now.Add(time.Duration(luck.IntN(25)-2) * time.Second)
	}
	if binds := luck.IntN(100) < v.mix.binds; binds && len(body) > 0 && toolOf(r) == nil {
		if luck.IntN(100) < v.mix.errs && !v.calm() {
			body = append(bytes.Clone(body), 'x')
		}
		c.Digest = digestOf(body)
	}
	if v.mix.twins > 0 {
		window := now.Truncate(v.mix.twins)
		c.ID = fmt.Sprintf("twin-%x", sha256.Sum256([]byte(window.UTC().String())))
		end = window.Add(v.mix.twins + end.Sub(now)).Truncate(time.Second)
	}
	c.Expires = end.UTC().Format("2006-01-02T15:04:05.000Z")
	v.sellers.mu.Lock()
	defer v.sellers.mu.Unlock()
	if v.sellers.issued == nil {
		v.sellers.issued = map[issued][]challenge{}
	}
	at := issued{order, c.ID}
	v.sellers.issued[at] = append(v.sellers.issued[at], c)
	return c
}

func digestOf(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

type bodyKey struct{}

// bodyOf returns the body of a request that was read for its seller.
func bodyOf(r *http.Request) []byte {
	body, _ := r.Context().Value(bodyKey{}).([]byte)
	return body
}

// challengeLine writes a challenge as a value of WWW-Authenticate.
func challengeLine(c challenge) string {
	line := fmt.Sprintf(`Payment id="%s", realm="%s", method="%s", intent="%s", request="%s", expires="%s"`, c.ID, c.Realm, c.Method, c.Intent, c.Request, c.Expires)
	for _, p := range [][2]string{{"digest", c.Digest}, {"opaque", c.Opaque}, {"header", c.Header}} {
		if p[1] != "" {
			line += fmt.Sprintf(`, %s="%s"`, p[0], p[1])
		}
	}
	return line
}

// askMPP asks for money as a seller that speaks MPP, and perhaps x402. reason is "" for a request without a credential.
func (v *way) askMPP(r *http.Request, order int, reason string, luck *rand.Rand) *http.Response {
	name, offersMPP, offersX402 := reason, true, false
	if name == "" {
		name = "payment-required"
	}
	if luck.IntN(100) < v.mix.both && v.mix.railOf(order) != x402.RailUpto {
		offersX402 = true
		offersMPP = luck.IntN(2) == 0
	}
	v.conductor.say("order %d is asked for: MPP %t, x402 %t, %s", order, offersMPP, offersX402, name)
	if toolOf(r) != nil {
		if !offersMPP { // one answer has one dialect
			return v.askTool(r, order, reason, luck)
		}
		return v.askToolMPP(r, order, name, luck)
	}
	resp := response(r, http.StatusPaymentRequired, string(problemOf(http.StatusPaymentRequired, name)), "Content-Type", "application/problem+json")
	if offersX402 {
		resp.Header.Set(x402.HeaderRequired, v.mix.challengeOf(order, r.URL.String(), reason))
	}
	if offersMPP {
		line := challengeLine(v.fresh(r, order, luck))
		if luck.IntN(2) == 0 {
			line = `Basic realm="x", ` + line
		}
		resp.Header.Set(headerChallenge, line)
	}
	return resp
}

// problemOf returns a problem document of MPP.
func problemOf(status int, name string) json.RawMessage {
	text, _ := json.Marshal(map[string]any{"type": "https://paymentauth.org/problems/" + name, "title": name, "status": status, "detail": "simulated"})
	return text
}

// askToolMPP asks inside MCP.
func (v *way) askToolMPP(r *http.Request, order int, name string, luck *rand.Rand) *http.Response {
	c := v.fresh(r, order, luck)
	text, _ := json.Marshal(c)
	var asked map[string]any
	_ = json.Unmarshal(text, &asked)
	asked["request"] = json.RawMessage(c.Request)
	terms := map[string]any{"httpStatus": 402, "challenges": []any{asked}, "problem": problemOf(http.StatusPaymentRequired, name)}
	if v.mix.mppOf(order).meta {
		return v.answerTool(r, luck, "result", map[string]any{"content": []any{}, "isError": true, "_meta": map[string]any{"org.paymentauth/payment-required": terms}})
	}
	code := -32042
	if toolOf(r).paid {
		code = -32043
	}
	return v.answerTool(r, luck, "error", map[string]any{"code": code, "message": name, "data": terms})
}

// forbid says that a credential is used, or that the seller has failed.
func (v *way) forbid(r *http.Request, status int, luck *rand.Rand) *http.Response {
	name := verifyFail
	if status >= http.StatusInternalServerError {
		name = "internal-payment-error"
	}
	if toolOf(r) != nil {
		return v.answerTool(r, luck, "error", map[string]any{"code": -32043, "message": name, "data": map[string]any{"httpStatus": status, "problem": problemOf(status, name)}})
	}
	return response(r, status, string(problemOf(status, name)), "Content-Type", "application/problem+json")
}

// askAfter answers a payload that the seller has settled already, and does not deliver for again.
func (v *way) askAfter(r *http.Request, order int, a x402.Authorization, luck *rand.Rand) *http.Response {
	if !paysByMPP(r) {
		return v.ask(r, order, spentReason(a), luck)
	}
	switch v.mix.mppOf(order).used {
	case 0:
		return v.forbid(r, http.StatusForbidden, luck)
	case 1:
		return v.forbid(r, http.StatusConflict, luck)
	}
	return v.ask(r, order, verifyFail, luck)
}

// credential answers a challenge.
type credential struct {
	Challenge json.RawMessage `json:"challenge"`
	Payload   struct {
		Type        string          `json:"type"`
		Signature   string          `json:"signature"`
		ValidAfter  json.RawMessage `json:"validAfter"`
		ValidBefore json.RawMessage `json:"validBefore"`
		From        string          `json:"from"`
		To          string          `json:"to"`
		Value       json.RawMessage `json:"value"`
		Nonce       string          `json:"nonce"`
	} `json:"payload"`
	Source string `json:"source"`
}

// mppIn returns the credential of MPP in a header as it was sent, with its scheme; "": there is none.
func mppIn(h http.Header) string {
	for _, name := range []string{"Authorization", "Payment-Authorization"} {
		if value := h.Get(name); strings.HasPrefix(value, paymentOf) {
			return value
		}
	}
	return ""
}

// paidBy reads what pays in a credential, of x402 or of MPP.
func paidBy(value string) (a x402.Authorization, s x402.Signature, err error) {
	payload := x402.Payload{}
	if text, is := strings.CutPrefix(value, paymentOf); is {
		var c credential
		if c, err = readCredential(text); err != nil {
			return a, s, err
		}
		p := c.Payload
		payload.JSON, _ = json.Marshal(map[string]any{"payload": map[string]any{"signature": p.Signature, "authorization": map[string]any{
			"from": p.From, "to": p.To, "value": p.Value, "validAfter": p.ValidAfter, "validBefore": p.ValidBefore, "nonce": p.Nonce,
		}}})
	} else if payload, err = x402.DecodePayload(value); err != nil {
		return a, s, err
	}
	return payload.Authorization()
}

func readCredential(text string) (c credential, err error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return c, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return c, d.Decode(&c)
}

// verifyMPP checks what a seller checks before it settles. Most faults can only be purser's. The answer is the name of a
// problem; "": it takes the credential.
func (v *way) verifyMPP(r *http.Request, order int, value string) string {
	text, _ := strings.CutPrefix(value, paymentOf)
	c, err := readCredential(text)
	if err != nil {
		v.violated("the credential of order %d cannot be read: %v", order, err)
		return "malformed-credential"
	}
	var echo challenge
	if text, is := unrequested(c.Challenge); is {
		err = json.Unmarshal(text, &echo)
	} else {
		err = json.Unmarshal(c.Challenge, &echo)
	}
	v.sellers.mu.Lock()
	known := false
	for _, one := range v.sellers.issued[issued{order, echo.ID}] {
		known = known || one == echo
	}
	v.sellers.mu.Unlock()
	a, _, wrong := paidBy(value)
	switch {
	case err != nil || !known:
		v.violated("order %d is paid with a challenge that was not issued for it: %v", order, err)
		return "invalid-challenge"
	case wrong != nil || c.Payload.Type != "authorization" || a.Nonce != echo.nonce():
		v.violated("the authorization of order %d is not bound to its challenge: %v", order, wrong)
		return verifyFail
	case a.Value.String() != fmt.Sprint(priceOf(order)) || !strings.EqualFold(a.To.String(), sellerAddress):
		v.violated("the authorization of order %d is not for its price and payee", order)
		return verifyFail
	case c.Source != "did:pkh:eip155:8453:"+a.From.String():
		v.violated("the credential of order %d names another source", order)
		return verifyFail
	case toolOf(r) == nil && r.Header.Get(cmp.Or(echo.Header, "Authorization")) != value:
		v.violated("the credential of order %d is in another field than its challenge names", order)
		return verifyFail
	case echo.Digest != "" && echo.Digest != digestOf(bodyOf(r)):
		v.violated("order %d is paid with another body than its challenge is for", order)
		return verifyFail
	}
	if end, err := time.Parse(time.RFC3339Nano, echo.Expires); err != nil || !time.Now().Before(end) {
		return "payment-expired"
	}
	return ""
}

// unrequested returns a challenge of MCP whose request is JSON as one whose request is its text.
func unrequested(text json.RawMessage) (json.RawMessage, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil || !bytes.HasPrefix(members["request"], []byte("{")) {
		return nil, false
	}
	members["request"], _ = json.Marshal(string(members["request"]))
	text, err := json.Marshal(members)
	return text, err == nil
}

// checkOwn checks that the agent's own credential reaches the seller of an order, whatever purser adds.
func (v *way) checkOwn(r *http.Request, o *order) {
	if o == nil || !o.own || r.URL.Path != o.path || v.node == v.agents {
		return
	}
	if own := r.Header.Values("Authorization"); len(own) != 1 || own[0] != ownCredential(o.number) {
		v.violated("order %d reaches its seller without the agent's own Authorization", o.number)
	}
}

// receiptMPP returns a receipt as the value of Payment-Receipt.
func receiptMPP(transaction string) string {
	text, _ := json.Marshal(map[string]any{"method": "evm", "status": "success", "reference": transaction, "timestamp": "2026-11-28T12:00:00Z"})
	return base64.RawURLEncoding.EncodeToString(text)
}

// paysByMPP reports whether a request has a credential of MPP.
func paysByMPP(r *http.Request) bool {
	if c := toolOf(r); c != nil {
		return c.mpp
	}
	return mppIn(r.Header) != ""
}

// readBody reads a request's body for its seller.
func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	return io.ReadAll(r.Body)
}
