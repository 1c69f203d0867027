package mppshop

import (
	"encoding/base64"
	"strings"
	"time"
)

// first changes the first challenge.
func first(change func(v *visit, c *challenge)) func(v *visit, o *offer) {
	return func(v *visit, o *offer) { change(v, &o.challenges[0]) }
}

// spelled writes every challenge in a style.
func spelled(change func(s *style)) func(v *visit, o *offer) {
	return func(_ *visit, o *offer) {
		s := plain
		change(&s)
		o.write = func(all []challenge) (lines []string) {
			for _, c := range all {
				lines = append(lines, written(c, s))
			}
			return lines
		}
	}
}

// spellings are honest sellers with odd headers.
func spellings() []Play {
	mixed := func(i int, name string) string {
		if i%2 == 0 {
			return strings.ToUpper(name)
		}
		return strings.ToUpper(name[:1]) + name[1:]
	}
	plays := []Play{
		{Name: "line", About: "several challenges in one line", offers: func(v *visit, o *offer) {
			o.challenges = []challenge{v.foreign("tempo"), o.challenges[0], v.foreign("stripe")}
			o.write = oneLine
		}},
		{Name: "lines", About: "several challenges in lines of their own", offers: func(v *visit, o *offer) {
			o.challenges = []challenge{v.foreign("tempo"), v.foreign("stripe"), o.challenges[0]}
		}},
		{Name: "schemes", About: "other schemes of authentication in the same line", offers: func(_ *visit, o *offer) {
			o.write = func(all []challenge) []string {
				return []string{`Basic realm="Payment shop", Negotiate, ` + oneLine(all)[0] + `, Bearer realm="x", error="y"`}
			}
		}},
		{Name: "case", About: "names of parameters in mixed case", offers: spelled(func(s *style) { s.name, s.scheme = mixed, "PAYMENT" })},
		{Name: "spaces", About: "spaces and tabs around commas and equals signs", offers: spelled(func(s *style) { s.equals, s.comma = " =\t", " ,, \t" })},
		{Name: "bare", About: "values without quotes where they may be", offers: spelled(func(s *style) {
			s.value = func(name, value string) string {
				if name == "method" || name == "intent" || name == "id" {
					return value
				}
				return quoted(value)
			}
		})},
		{Name: "word", About: "the word Payment inside of a text", offers: first(func(_ *visit, c *challenge) {
			c.Description = `Pay, Payment id="x", method="tempo"`
		})},
		{Name: "escapes", About: "quotes and backslashes inside of texts", offers: first(func(_ *visit, c *challenge) {
			c.Description, c.Realm = `a "good" \ thing\`, `the "shop"\`
		})},
		{Name: "latin", About: "bytes of Latin-1", offers: first(func(_ *visit, c *challenge) { c.Description, c.Realm = "Müller & Söhne", "Café" })},
		{Name: "beyond", About: "letters beyond Latin-1, as mppx escapes them", offers: first(func(_ *visit, c *challenge) {
			c.Description, c.Realm = "rain ☂ and a smile 😀", "☂.test"
		})},
		{Name: "unknown", About: "parameters that nobody knows", offers: first(func(_ *visit, c *challenge) {
			c.more = []param{{"x-note", `a, "b"`}, {"chainid", "1"}, {"payto", "0x0000000000000000000000000000000000000001"}}
		})},
		{Name: "opaque", About: "data of the seller that must come back", offers: first(func(_ *visit, c *challenge) {
			c.Opaque = base64.RawURLEncoding.EncodeToString([]byte(`{"route":"/weather","n":"1"}`))
		})},
		{Name: "endless", About: "a challenge that does not expire", offers: first(func(_ *visit, c *challenge) { c.Expires = "" })},
		{Name: "fine", About: "an end in microseconds, with an offset", offers: first(func(v *visit, c *challenge) {
			c.Expires = v.o.Now().Add(v.o.Validity).In(time.FixedZone("", 2*60*60)).Format("2006-01-02T15:04:05.000000Z07:00")
		})},
		{Name: "realm", About: "a challenge in the name of another realm", offers: first(func(_ *visit, c *challenge) { c.Realm = "bank.test" })},
		{Name: "newer", About: "the nonce of newer sellers, and what tells them apart", offers: first(func(_ *visit, c *challenge) {
			c.newer = true
			c.Opaque = base64.RawURLEncoding.EncodeToString([]byte(`{"_mpp_nonce":"c3638e138a6f47363d709a13c905cb00"}`))
		})},
	}
	for i := range plays {
		plays[i].Outcome = Delivered
	}
	return plays
}

// protocols are sellers that speak x402 too.
func protocols() []Play {
	return []Play{
		{Name: "both", About: "MPP and x402", Outcome: Delivered, x402: true, offers: func(_ *visit, o *offer) { o.x402 = true }},
		{
			Name: "both-storm", About: "MPP and x402, one or both by chance, in a storm", Outcome: Delivered, x402: true, paid: storm,
			offers: func(v *visit, o *offer) {
				v.mu.Lock()
				chance := v.chance.IntN(3)
				v.mu.Unlock()
				o.x402 = chance != 0
				if chance == 1 {
					o.challenges = nil
				}
			},
		},
		{Name: "swap", About: "MPP; asks by x402 when it denies the credential once", Outcome: Delivered, x402: true, offers: func(v *visit, o *offer) {
			if v.paying() {
				o.challenges, o.x402 = nil, true
			}
		}, paid: deniesOnce},
		{Name: "swap-back", About: "x402; asks by MPP when it denies the payload once", Outcome: Delivered, x402: true, offers: func(v *visit, o *offer) {
			if !v.paying() {
				o.challenges, o.x402 = nil, true
			}
		}, paid: deniesOnce},
		{Name: "swap-deaf", About: "MPP; settles, and asks by x402 for ever", Outcome: Taken, x402: true, offers: func(v *visit, o *offer) {
			if v.paying() {
				o.challenges, o.x402 = nil, true
			}
		}, paid: moved(func(v *visit, _ *sale) { v.demand(problemRequired, "Payment is required.") })},
	}
}

// paying reports whether the request has a credential.
func (v *visit) paying() bool {
	_, _, found := v.presented()
	return found
}

func deniesOnce(v *visit, one *sale) {
	if v.nth() == 1 {
		v.demand(problemVerify, "not yet")
		return
	}
	v.deliver(one)
}

// placed asks for the credential in another header.
func placed(header string) func(v *visit, o *offer) {
	return first(func(_ *visit, c *challenge) { c.Header = header })
}

// places are sellers that choose where the credential goes, or for whom they have an offer.
func places() []Play {
	return []Play{
		{Name: "other", About: "wants the credential in Payment-Authorization", Outcome: Delivered, Header: HeaderPayment, place: HeaderPayment, offers: placed(HeaderPayment)},
		{Name: "other-case", About: "the same, in lower case", Outcome: Delivered, Header: HeaderPayment, place: HeaderPayment, offers: placed(strings.ToLower(HeaderPayment))},
		{Name: "cookie", About: "wants the credential in Cookie", Outcome: Declined, place: "Cookie", offers: placed("Cookie")},
		{Name: "proxy", About: "wants the credential in Proxy-Authorization", Outcome: Declined, place: "Proxy-Authorization", offers: placed("Proxy-Authorization")},
		{Name: "gate", About: "has an offer only for callers with Accept-Payment", Outcome: Delivered, offers: func(v *visit, o *offer) {
			if !accepts(v.r.Header) {
				o.challenges = nil
			}
		}},
	}
}

// digests are sellers that bind a body.
func digests() []Play {
	return []Play{
		{Name: "digest", About: "the challenge binds the body", Outcome: Delivered, offers: first(func(v *visit, c *challenge) { c.Digest = digestOf(v.body) })},
		{Name: "digest-wrong", About: "the challenge binds another body", Outcome: Declined, offers: first(func(v *visit, c *challenge) {
			c.Digest = digestOf(append(v.body, 'x'))
		})},
	}
}

// asking changes the request of the first challenge.
func asking(change func(v *visit, terms, details object)) func(v *visit, o *offer) {
	return first(func(v *visit, c *challenge) {
		terms := v.terms()
		change(v, terms, terms["methodDetails"].(object))
		c.Request = requestOf(terms)
	})
}

// defects are challenges that a payer should leave alone.
func defects() []Play {
	splits := []object{{"recipient": "0x00000000000000000000000000000000000000aa", "amount": "2000"}}
	plays := []Play{
		{Name: "expired", About: "a challenge that has expired", offers: first(func(v *visit, c *challenge) { c.Expires = stamp(v.o.Now().Add(-time.Second)) })},
		{Name: "nameless", About: "a challenge with an empty id", nameless: true},
		{Name: "zero", About: "the amount is 0", offers: asking(func(_ *visit, terms, _ object) { terms["amount"] = "0" })},
		{Name: "negative", About: "the amount is less than 0", offers: asking(func(_ *visit, terms, _ object) { terms["amount"] = "-10000" })},
		{Name: "number", About: "the amount is a number of JSON", offers: asking(func(_ *visit, terms, _ object) { terms["amount"] = 10000 })},
		{Name: "dear", About: "costs N smallest units (2500000)", dear: true},
		{Name: "currency", About: "a token that nobody knows", offers: asking(func(_ *visit, terms, _ object) {
			terms["currency"] = "0x00000000000000000000000000000000000000ee"
		})},
		{Name: "chain", About: "another chain", offers: asking(func(_ *visit, _, details object) { details["chainId"] = 424242 })},
		{Name: "splits", About: "evm with splits", offers: asking(func(_ *visit, _, details object) { details["splits"] = splits })},
		{Name: "types", About: "only types of credentials that purser does not make", offers: asking(func(_ *visit, _, details object) {
			details["credentialTypes"] = []string{"permit2", "hash"}
		})},
		{Name: "unreadable", About: "a request that is not base64url", offers: first(func(_ *visit, c *challenge) { c.Request = "{}!" })},
		{Name: "not-json", About: "a request that is not JSON", offers: first(func(_ *visit, c *challenge) {
			c.Request = base64.RawURLEncoding.EncodeToString([]byte("amount=1"))
		})},
		{Name: "twice", About: "a parameter two times", offers: first(func(v *visit, c *challenge) {
			c.more = []param{{"request", c.Request}}
		})},
		{Name: "huge", About: "a request beyond 16 KiB", offers: asking(func(_ *visit, terms, _ object) { terms["note"] = strings.Repeat("x", 20<<10) })},
		{Name: "session", About: "only a session", offers: func(v *visit, o *offer) { o.challenges = []challenge{v.foreign("session")} }},
		{Name: "stripe", About: "only Stripe", offers: func(v *visit, o *offer) { o.challenges = []challenge{v.foreign("stripe")} }},
		{Name: "card", About: "only cards", offers: func(v *visit, o *offer) { o.challenges = []challenge{v.foreign("card")} }},
		{Name: "nothing", About: "a 402 without any challenge", offers: func(_ *visit, o *offer) { o.challenges = nil }},
	}
	for i := range plays {
		plays[i].Outcome = Declined
	}
	return plays
}

// neighbours are sellers with a good offer beside others.
func neighbours() []Play {
	return []Play{
		{Name: "beside", About: "a session, Stripe and cards beside a good offer, in one line", Outcome: Delivered, offers: func(v *visit, o *offer) {
			o.challenges = []challenge{v.foreign("session"), v.foreign("stripe"), v.foreign("card"), o.challenges[0]}
			o.write = oneLine
		}},
		{Name: "beside-bad", About: "a challenge that cannot be read beside a good offer", Outcome: Delivered, offers: func(v *visit, o *offer) {
			bad := v.fresh()
			bad.Request = "{}!"
			o.challenges = []challenge{bad, o.challenges[0]}
		}},
	}
}

// foreign is a challenge of another method, or for another intent.
func (v *visit) foreign(kind string) challenge {
	c := v.fresh()
	terms := object{"amount": v.o.Price.String(), "currency": "usd", "recipient": v.o.PayTo.String()}
	c.Method = kind
	switch kind {
	case "session":
		c.Method, c.Intent = "tempo", "session"
		terms["currency"] = pathUSD
		terms["methodDetails"] = object{"chainId": 4217, "escrowContract": "0x33b901018174DDabE4841042ab76ba85D4e24f25"}
	case "tempo":
		terms["currency"] = pathUSD
		terms["methodDetails"] = object{"chainId": 4217}
	case "stripe":
		terms["methodDetails"] = object{"networkId": "profile_play", "paymentMethodTypes": []string{"card"}}
		delete(terms, "recipient")
	case "card":
		terms["methodDetails"] = object{"acceptedNetworks": []string{"visa"}}
		delete(terms, "recipient")
	}
	c.Request = requestOf(terms)
	return c
}

// pathUSD is a token of Tempo.
const pathUSD = "0x20c0000000000000000000000000000000000000"

// receipts are sellers with odd receipts.
func receipts() []Play {
	other := "0x" + strings.Repeat("ab", 32)
	lie := func(v *visit, _ string) string { return receipt(other, v.o.Now()) }
	return []Play{
		{Name: "receipt-lies", About: "settles, and names another transaction", Outcome: Delivered, receipt: lie},
		{Name: "receipt-none", About: "settles, and has no receipt", Outcome: Delivered, receipt: func(*visit, string) string { return "" }},
		{Name: "receipt-unreadable", About: "settles, and has a receipt that is none", Outcome: Delivered, receipt: func(*visit, string) string { return "%%%" }},
		{Name: "receipt-failed", About: "settles, and the receipt says that it failed", Outcome: Delivered, receipt: func(v *visit, transaction string) string {
			return base64.RawURLEncoding.EncodeToString(compact(object{
				"method": methodEVM, "status": "failed", "reference": transaction, "timestamp": stamp(v.o.Now()),
			}))
		}},
		{Name: "gift", About: "delivers, and never settles", Outcome: Given, paid: (*visit).send, receipt: func(*visit, string) string { return "" }},
		{Name: "gift-lies", About: "delivers with a receipt, and never settles", Outcome: Given, paid: (*visit).send, receipt: lie},
	}
}
