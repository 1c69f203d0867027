package adminapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// DisputeFormat names the form of a [Dispute]. A change that its verifier must know of gets another name.
const DisputeFormat = "purser-dispute/1"

// Dispute shows to others that a payment was made, for what, and what came of it. docs/dispute/verify.mjs checks it
// without purser.
type Dispute struct {
	Format        string             `json:"format"`
	Made          time.Time          `json:"made_at"`
	Payment       DisputedPayment    `json:"payment"`
	Request       DisputedRequest    `json:"request"`
	Offered       DisputedOffer      `json:"offered"`
	Terms         DisputedTerms      `json:"terms"`
	Authorization DisputedSignature  `json:"authorization"`
	Answer        DisputedAnswer     `json:"answer"`
	Chain         *DisputedChainWord `json:"chain,omitempty"` // nil: see ChainUnknown
	ChainUnknown  string             `json:"chain_unknown,omitempty"`
}

// DisputedPayment holds the payment as the books have it.
type DisputedPayment struct {
	ID    string    `json:"id"`
	State pay.State `json:"state"`
	Flags []string  `json:"flags"`
	pay.Means
	Created time.Time `json:"created_at"`
	Closed  time.Time `json:"closed_at,omitzero"`
	Notes   []Note    `json:"notes"`
}

// DisputedRequest holds the request that was paid for. Its hash is over method, URL and the SHA-256 of the body.
type DisputedRequest struct {
	URL  string   `json:"url"`
	Hash pay.Hash `json:"hash"`
	// Method and Body are "" unless they give the Hash together with the URL. Unknown says why.
	Method  string `json:"method,omitempty"`
	Body    string `json:"body_sha256,omitempty"` // in hex
	Unknown string `json:"unknown,omitempty"`
}

// DisputedOffer holds the seller's terms as its 402 had them, with the seller's signed offers if it gave any. Version is that of
// x402, or [x402.OtherProtocols] for MPP, whose challenge is a member of Accepted.
type DisputedOffer struct {
	Version    int             `json:"x402Version"`
	Accepted   json.RawMessage `json:"accepted"`
	Resource   json.RawMessage `json:"resource,omitempty"`
	Extensions json.RawMessage `json:"extensions,omitempty"`
}

// DisputedTerms holds the terms that were paid.
type DisputedTerms struct {
	Network string `json:"network"`
	ChainID uint64 `json:"chain_id"`
	Asset   string `json:"asset"`
	PayTo   string `json:"pay_to"`
	Amount  string `json:"amount"` // in the smallest unit; the most, where the seller chooses afterwards
}

// DisputedSignature holds what was signed and sent, as EIP-712 has it.
type DisputedSignature struct {
	From      string         `json:"from"` // the wallet, which a message to Permit2 does not name
	TypedData x402.TypedData `json:"typed_data"`
	Signature string         `json:"signature"`
}

// DisputedAnswer says how the seller answered.
type DisputedAnswer struct {
	Delivered bool `json:"delivered"`
	// Status is the HTTP status of the answer. 0: none came. nil: not known.
	Status *int        `json:"status"`
	Body   *AnswerBody `json:"body,omitempty"` // nil: not known
	// Unknown names what purser does not know of the answer.
	Unknown       string         `json:"unknown,omitempty"`
	SellerSaid    string         `json:"seller_said,omitempty"`
	SignedReceipt *SignedReceipt `json:"signed_receipt,omitempty"`
}

// DisputedChainWord holds what the RPC says of the authorization.
type DisputedChainWord struct {
	Transaction string    `json:"transaction,omitempty"` // that moved the money
	Used        bool      `json:"used"`                  // the authorization is spent by its transfer
	Moved       string    `json:"moved,omitempty"`       // in the smallest unit
	SafeBlock   uint64    `json:"safe_block"`
	SafeHash    string    `json:"safe_hash"`
	SafeTime    time.Time `json:"safe_time"`
}

// dispute serves GET /purser/payments/{id}/dispute?method=&body=, with the SHA-256 of the body in hex.
func (p *Purser) dispute(r *http.Request) (any, error) {
	row, err := p.findPayment(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if err := row.Disclosable(failpoint.Now()); err != nil {
		return nil, Errorf(http.StatusConflict, "%w", err)
	}
	d := Dispute{
		Format: DisputeFormat, Made: failpoint.Now().UTC(),
		Payment: DisputedPayment{row.ID, row.State, row.Flags(), row.Means(), row.Created, row.Closed, storyOf(row, failpoint.Now()).Notes},
		Offered: DisputedOffer{row.Offer.Version, row.Offer.Accepted, row.Offer.Resource, row.Offer.Extensions},
		Answer:  answerOf(row),
	}
	if d.Request, err = requestOf(row, r.URL.Query().Get("method"), r.URL.Query().Get("body")); err != nil {
		return nil, err
	}
	network, asset, err := row.Asset()
	if err != nil {
		return nil, err
	}
	d.Terms = DisputedTerms{network.Name, network.ChainID, row.Terms.Asset.String(), row.Terms.PayTo.String(), row.Terms.Amount.String()}
	d.Authorization = DisputedSignature{row.Authorization.From.String(), row.Authorization.TypedData(asset, network.ChainID), row.Signature.String()}
	return d, p.askChain(r.Context(), row, &d)
}

// askChain adds the chain's word. Without an RPC that answers, the file says so.
func (p *Purser) askChain(ctx context.Context, row *pay.Payment, d *Dispute) error {
	t, err := p.Payer.Trace(ctx, row)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, pay.ErrUnwatched):
		d.ChainUnknown = "purser has no RPC for this network"
		return nil
	case err != nil:
		d.ChainUnknown = "the RPC gave no answer that counts"
		return nil
	}
	d.Chain = &DisputedChainWord{Transaction: t.Transaction, Used: t.Used, SafeBlock: t.SafeNumber, SafeHash: t.SafeHash, SafeTime: t.SafeTime}
	if t.Used {
		d.Chain.Moved = t.Moved.String()
	}
	return nil
}

func answerOf(row *pay.Payment) DisputedAnswer {
	a := DisputedAnswer{Delivered: row.Delivered() && !row.Undelivered, SellerSaid: row.SellerSaid}
	a.Status, a.Body = shownAnswer(row)
	switch {
	case !row.Door.Dials():
		a.Unknown = "the client has sent the request itself, so purser knows nothing of its answer but a receipt"
	case a.Status == nil && a.Delivered:
		a.Unknown = "the status and hash of the answer"
	case a.Status == nil:
		a.Unknown = "whether an answer came, with which status and hash"
	case !a.Delivered && !row.Undelivered:
		a.Unknown = "whether the client got all of the answer"
	}
	if row.SignedReceipt != nil {
		a.SignedReceipt = &SignedReceipt{x402.VerifiedReceipt(row.SignedReceipt), row.SignedReceipt}
	}
	return a
}

// noBody is the SHA-256 of nothing.
var noBody = pay.Hash(sha256.Sum256(nil))

// requestOf finds the request by its hash: with a method and a body that the operator names, or else without a body.
func requestOf(row *pay.Payment, method, body string) (DisputedRequest, error) {
	d := DisputedRequest{URL: row.RequestURL, Hash: row.Fingerprint}
	if !row.Door.Dials() {
		d.Unknown = "the client has sent the request itself, so purser knows its URL only"
		return d, nil
	}
	hash, methods := noBody, []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}
	if body != "" {
		if err := hash.UnmarshalText([]byte(body)); err != nil {
			return d, Errorf(http.StatusBadRequest, "body: a SHA-256 in hex")
		}
	}
	if method != "" {
		methods = []string{method}
	}
	for _, m := range methods {
		if row.Bought(m, row.RequestURL, hash) {
			text, err := hash.MarshalText()
			d.Method, d.Body = m, string(text)
			return d, err
		}
	}
	if method != "" || body != "" {
		return d, Errorf(http.StatusBadRequest, "payment %s was not made for a request with this method and body to %s", row.ID, row.RequestURL)
	}
	d.Unknown = "purser keeps the hash only, and the request has a body or another URL at the client's side: give its method and body"
	return d, nil
}
