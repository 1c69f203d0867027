package honest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/purserpay/purser/sandbox/token"
	"github.com/purserpay/purser/x402"
)

const (
	// MaxCall bounds the body of a call, in bytes.
	MaxCall = 1 << 20
	// SettleTime bounds a settlement, which goes on when its caller leaves.
	SettleTime = time.Minute
)

// Facilitator is an x402 facilitator over HTTP for one chain: POST /verify, POST /settle, GET
// /supported. It speaks both protocol versions, scheme exact by EIP-3009. Refusals have the
// reference facilitator's reason words and status 200. Status 400 means that the body is no call.
// Status 500 means that the chain did not answer.
type Facilitator struct {
	chain token.Chain
	now   func() time.Time
	mux   *http.ServeMux
}

// NewFacilitator returns a facilitator on a chain. now is its clock. Default: time.Now.
func NewFacilitator(chain token.Chain, now func() time.Time) *Facilitator {
	if now == nil {
		now = time.Now
	}
	f := &Facilitator{chain: chain, now: now, mux: http.NewServeMux()}
	f.mux.HandleFunc("POST /verify", f.verify)
	f.mux.HandleFunc("POST /settle", f.settle)
	f.mux.HandleFunc("GET /supported", f.supported)
	return f
}

// ServeHTTP serves the facilitator's routes.
func (f *Facilitator) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.mux.ServeHTTP(w, r) }

// supported lists the kinds of payment that the facilitator settles.
func (f *Facilitator) supported(w http.ResponseWriter, _ *http.Request) {
	kinds := []map[string]any{}
	for _, version := range []int{2, 1} {
		kinds = append(kinds, map[string]any{"x402Version": version, "scheme": Scheme, "network": WireNetwork(version)})
	}
	WriteJSON(w, http.StatusOK, map[string]any{"kinds": kinds, "extensions": []string{}, "signers": map[string][]string{}})
}

// call holds the decoded body of /verify or /settle.
type call struct {
	version         int
	scheme, network string // of the payload
	authorization   x402.Authorization
	signature       x402.Signature
	required        Requirement
}

// readCall decodes a body. An error means that the body is no call. A refusal means that the call
// cannot be paid.
func readCall(r *http.Request) (c call, no *refusal, err error) {
	var body struct {
		Version      int             `json:"x402Version"`
		Payload      json.RawMessage `json:"paymentPayload"`
		Requirements json.RawMessage `json:"paymentRequirements"`
	}
	if err := ReadJSON(r.Body, MaxCall, &body); err != nil {
		return c, nil, err
	}
	if body.Payload == nil || body.Requirements == nil {
		return c, nil, errors.New("paymentPayload and paymentRequirements are needed")
	}
	var payload struct {
		Version  int         `json:"x402Version"`
		Scheme   string      `json:"scheme"`  // version 1
		Network  string      `json:"network"` // version 1
		Accepted Requirement `json:"accepted"`
	}
	if err := json.Unmarshal(body.Payload, &payload); err != nil {
		return c, nil, fmt.Errorf("paymentPayload: %w", err)
	}
	if err := json.Unmarshal(body.Requirements, &c.required); err != nil {
		return c, nil, fmt.Errorf("paymentRequirements: %w", err)
	}
	c.version, c.scheme, c.network = payload.Version, payload.Scheme, payload.Network
	if c.version == 2 {
		c.scheme, c.network = payload.Accepted.Scheme, payload.Accepted.Network
	}
	if c.version != 1 && c.version != 2 || body.Version != c.version {
		return c, &refusal{Reason: "invalid_x402_version"}, nil
	}
	c.authorization, c.signature, err = x402.Payload{Version: c.version, JSON: body.Payload}.Authorization()
	if err != nil {
		return c, &refusal{Reason: "invalid_payload", Message: err.Error()}, nil
	}
	if c.authorization.Rail != x402.RailEIP3009 {
		return c, &refusal{Reason: "unsupported_payload_type"}, nil
	}
	return c, nil, nil
}

// admit reads a call and makes the checks that need no chain. It answers what is no call.
func (f *Facilitator) admit(w http.ResponseWriter, r *http.Request) (c call, no *refusal, ok bool) {
	c, no, err := readCall(r)
	if err != nil {
		WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return c, nil, false
	}
	if no == nil {
		no = f.check(c)
	}
	return c, no, true
}

func (f *Facilitator) verify(w http.ResponseWriter, r *http.Request) {
	c, no, ok := f.admit(w, r)
	if !ok {
		return
	}
	if no == nil {
		var err error
		if no, err = f.simulate(r.Context(), c); err != nil {
			WriteJSON(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
			return
		}
	}
	answer := VerifyAnswer{IsValid: no == nil, Payer: c.payer()}
	if no != nil {
		answer.InvalidReason, answer.InvalidMessage = no.Reason, no.Message
	}
	WriteJSON(w, http.StatusOK, answer)
}

func (f *Facilitator) settle(w http.ResponseWriter, r *http.Request) {
	c, no, ok := f.admit(w, r)
	if !ok {
		return
	}
	answer := SettleAnswer{Network: c.network, Payer: c.payer()}
	if no == nil {
		// A settlement that began goes on when its caller leaves.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), SettleTime)
		defer cancel()
		answer.Transaction, no = f.transfer(ctx, c)
	}
	if no != nil {
		answer.ErrorReason, answer.ErrorMessage = no.Reason, no.Message
	}
	answer.Success = no == nil
	WriteJSON(w, http.StatusOK, answer)
}

// payer returns the claimed payer of a call, or "" without an authorization.
func (c call) payer() string {
	if c.authorization.From.IsZero() {
		return ""
	}
	return c.authorization.From.String()
}
