package declines

// Sight is something in an answer's words, beside its reason, that tells what to do.
type Sight struct {
	Sees string // Markdown: what the agent sees, and where
	Why  string
	Do   string
}

// Sights returns what stands in the words of answers, in the order of the docs.
func Sights() []Sight {
	return []Sight{
		{
			"`sellerSaid`, `The seller said: …`", "the seller refused the payment in these words. They are its own, and may be wrong",
			"what they say. `purser payments show ID` has them too",
		},
		{
			"`fund the wallet 0x…`", "the seller says that the wallet holds too little",
			"`purser wallets`; send USDC to its address, and repeat the request",
		},
		{
			"`Purser-Declined-Detail: The seller answered 4xx to the payment`", "the seller's error to the payment, which passes as it came",
			"its body; repeat the same request: it gets the same payment",
		},
		{
			"`… can be taken for …, which this key pays`", "the host looks like one that the key has paid: a letter, the ending, or a name in front of another",
			"look at the name. `purser approvals approve ID` if it is the right one; else use the one that you know",
		},
		{
			"`an answer of … has led to …`, `the terms of … are for a resource of …`", "the payment would go to another site than the one that was asked, or that sells",
			"ask the seller whether the other site is its own, and approve the first payment: `purser approvals approve ID`",
		},
		{
			"`came from a cache`", "a cache between purser and the seller answered the payment with a 402 that it keeps (`Age`, `X-Cache`, `CF-Cache-Status`, `Cache-Status`)",
			"tell the seller: its 402 needs `Cache-Control: no-store`. Repeat the same request until the payment expires",
		},
		{
			"`the same challenge`", "the seller asks as if it had not seen a payment: a gateway in front of it may drop the payment's header",
			"tell the seller. Repeat the same request: it gets the same payment",
		},
		{
			"`kept its first 402 under the Idempotency-Key`", "the seller keeps its answers by that key, and the first one was the 402",
			"tell the seller. The key pays once, however often it is sent. Use another one once the payment is `void`",
		},
		{
			"`the terms are in … and not at the top`, `the terms in … differ`", "the challenge is inside something else, or there are several. purser reads `detail`, `error`, `data` and `paymentRequired`, one level deep",
			"tell the seller",
		},
		{
			"`it has several values that differ`", "a header that may stand once has several values",
			"tell the seller, or whoever runs the proxy on the way",
		},
		{
			"`amount: \"1000.0\" is not a whole number of smallest units`", "the field of the challenge has this value. purser never guesses an amount",
			"tell the seller: 0.001 USDC is `\"1000\"`",
		},
		{
			"`half-closed`", "the client has ended its sending side (`nc -N`, some HTTP/1.0 programs). purser cannot tell it from one that has left, so it pays nothing; free answers come",
			"keep the connection open until the answer has come",
		},
		{
			"502 `upstream-tls`", "TLS with the upstream failed: no common cipher (old servers with RSA key exchange only), TLS 1.0 or 1.1, a port without TLS, a client certificate",
			"tell the seller. purser speaks TLS 1.2 and 1.3 with ECDHE",
		},
	}
}
