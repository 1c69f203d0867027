package honest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/purserpay/purser/x402"
)

const (
	// callTime bounds a call to a facilitator: a settlement and some spare time.
	callTime = SettleTime + 10*time.Second
	// maxVerdict bounds an answer of a facilitator, in bytes.
	maxVerdict = 64 << 10
)

// Till is the side of a seller that talks to a facilitator.
type Till struct {
	// Facilitator is the base URL of an x402 facilitator.
	Facilitator string
	// Client calls it.
	Client *http.Client
}

// Verify asks whether a payload answers a requirement, and would move the money now.
func (t Till) Verify(ctx context.Context, p x402.Payload, required Requirement) (v VerifyAnswer, err error) {
	err = t.call(ctx, "/verify", p, required, &v)
	return v, err
}

// Settle moves the money. It does not stop when the buyer leaves, because the outcome of the money would then be unknown.
func (t Till) Settle(ctx context.Context, p x402.Payload, required Requirement) (v SettleAnswer, err error) {
	err = t.call(context.WithoutCancel(ctx), "/settle", p, required, &v)
	return v, err
}

// call calls the facilitator. Any answer that holds a verdict counts, whatever its status.
func (t Till) call(ctx context.Context, path string, p x402.Payload, required Requirement, verdict any) error {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	body, err := json.Marshal(map[string]any{
		"x402Version": p.Version, "paymentPayload": p.JSON, "paymentRequirements": required,
	})
	if err != nil {
		return fmt.Errorf("encode a call of %s: %w", path, err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(t.Facilitator, "/")+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := t.Client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer json.RawMessage
	if err := ReadJSON(resp.Body, maxVerdict, &answer); err != nil {
		return fmt.Errorf("read the answer of %s: %w", path, err)
	}
	var seen struct {
		IsValid *bool `json:"isValid"`
		Success *bool `json:"success"`
	}
	if err := json.Unmarshal(answer, &seen); err != nil {
		return fmt.Errorf("read the answer of %s: %w", path, err)
	}
	if seen.IsValid == nil && seen.Success == nil {
		return fmt.Errorf("%s answered %d without a verdict", path, resp.StatusCode)
	}
	return json.Unmarshal(answer, verdict)
}

// AnsweredBy reports whether a payload answers the requirement. In version 2 it must echo
// the requirement, and only extra may hold more. In version 1 only scheme and network must match.
func (r Requirement) AnsweredBy(p x402.Payload) bool {
	var echoed struct {
		Scheme   string         `json:"scheme"`
		Network  string         `json:"network"`
		Accepted map[string]any `json:"accepted"`
	}
	if err := json.Unmarshal(p.JSON, &echoed); err != nil {
		return false
	}
	if p.Version == 1 {
		return echoed.Scheme == r.Scheme && echoed.Network == r.Network
	}
	text, err := json.Marshal(r)
	if err != nil {
		return false
	}
	var ours map[string]any
	if err := json.Unmarshal(text, &ours); err != nil {
		return false
	}
	more, _ := echoed.Accepted["extra"].(map[string]any)
	least, _ := ours["extra"].(map[string]any)
	for key, value := range least {
		if !reflect.DeepEqual(more[key], value) {
			return false
		}
	}
	delete(echoed.Accepted, "extra")
	delete(ours, "extra")
	return reflect.DeepEqual(echoed.Accepted, ours)
}
