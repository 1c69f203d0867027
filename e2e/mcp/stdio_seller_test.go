package mcp

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/purserpay/purser/sandbox/honest"
	"github.com/purserpay/purser/x402"
)

// Variables of the seller on standard streams.
const (
	sellsOnStreams = "SELLS_ON_STREAMS" // this process is the seller
	sellerFolder   = "SELLER_FOLDER"    // for its runs and its paid answers
	sellerHangs    = "SELLER_HANGS"     // after the settlement of its first payment it is silent
	sellerCharges  = "SELLER_CHARGES"   // it asks by MPP, and denies each credential so often, which it has settled
)

// streamSeller sells the weather over its standard input and output. It settles each payment, and keeps what it has
// answered to one.
type streamSeller struct {
	till     honest.Till
	required honest.Requirement
	folder   string
	asked    int            // by MPP
	denied   map[string]int // credentials
}

// sellOnStreams serves until the input ends, and returns the exit status.
func sellOnStreams() int {
	_, usdc := honest.Network()
	s := streamSeller{
		till:   honest.Till{Facilitator: os.Getenv("FACILITATOR_URL"), Client: http.DefaultClient},
		folder: os.Getenv(sellerFolder), denied: map[string]int{},
		required: honest.Requirement{
			Scheme: honest.Scheme, Network: honest.WireNetwork(2), Amount: fmt.Sprint(price), PayTo: os.Getenv("PAY_TO"),
			Asset: usdc.Address.String(), MaxTimeoutSeconds: 60, Extra: &honest.Extra{Name: usdc.Name, Version: usdc.Version},
		},
	}
	for _, entry := range os.Environ() { // purser's own are not for servers
		if strings.HasPrefix(entry, "PURSER_") {
			fmt.Fprintln(os.Stderr, "the seller sees", entry)
			return 3
		}
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var asked struct {
			ID     json.RawMessage
			Method string
			Params struct {
				ProtocolVersion string
				Name            string
				Arguments       struct{ City string }
				Meta            map[string]json.RawMessage `json:"_meta"`
			}
		}
		if json.Unmarshal(in.Bytes(), &asked) != nil || asked.ID == nil {
			continue
		}
		var result any
		outcome := "result"
		switch {
		case asked.Method == "initialize":
			result = map[string]any{
				"protocolVersion": asked.Params.ProtocolVersion, "capabilities": map[string]any{"tools": map[string]any{}},
				"serverInfo": map[string]string{"name": "weather", "version": "1"},
			}
		case asked.Params.Name == "hello":
			result = words("hello")
		case asked.Method == "tools/call" && os.Getenv(sellerCharges) != "":
			outcome, result = s.charge(asked.Params.Arguments.City, asked.Params.Meta["org.paymentauth/credential"])
		case asked.Method == "tools/call":
			result = s.sell(asked.Params.Arguments.City, asked.Params.Meta["x402/payment"])
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown method"}}`+"\n", asked.ID)
			continue
		}
		text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": asked.ID, outcome: result})
		if err != nil {
			return 1
		}
		fmt.Printf("%s\n", text)
	}
	return 7 // for the test to see
}

// charge is sell for a seller of MPP that rotates its challenges. It returns the member for the answer, and its value.
func (s *streamSeller) charge(city string, credential json.RawMessage) (member string, value any) {
	_, usdc := honest.Network()
	s.asked++
	challenge := map[string]any{
		"id": fmt.Sprintf("challenge-%d", s.asked), "realm": "weather", "method": "evm", "intent": "charge",
		"request": map[string]any{
			"amount": s.required.Amount, "currency": usdc.Address.String(), "recipient": s.required.PayTo,
			"methodDetails": map[string]any{"chainId": 8453},
		},
	}
	ask := map[string]any{"code": -32042, "message": "Payment is required", "data": map[string]any{"httpStatus": 402, "challenges": []any{challenge}}}
	if credential == nil {
		return "error", ask
	}
	var paid struct{ Payload map[string]string }
	if err := json.Unmarshal(credential, &paid); err != nil {
		return "error", ask
	}
	signature := paid.Payload["signature"]
	delete(paid.Payload, "signature")
	delete(paid.Payload, "type")
	text, _ := json.Marshal(map[string]any{ //nolint:errchkjson // texts
		"x402Version": 2, "accepted": s.required, "payload": map[string]any{"signature": signature, "authorization": paid.Payload},
	})
	if s.denied[signature] == 0 {
		if receipt, err := s.till.Settle(context.Background(), x402.Payload{Version: 2, JSON: text}, s.required); err != nil || !receipt.Success {
			fmt.Fprintln(os.Stderr, "not settled:", receipt.ErrorReason, err)
			return "error", ask
		}
	}
	if s.denied[signature]++; fmt.Sprint(s.denied[signature]-1) != os.Getenv(sellerCharges) {
		return "error", ask
	}
	return "result", words("sunny in " + city)
}

func words(text string) map[string]any {
	return map[string]any{"content": []map[string]string{{"type": "text", "text": text}}}
}

// sell returns the result of a call with a payment; nil: it has none.
func (s streamSeller) sell(city string, payment json.RawMessage) any {
	challenge := func(reason string) any {
		terms := map[string]any{"x402Version": 2, "error": reason, "accepts": []honest.Requirement{s.required}, "resource": map[string]string{"url": "mcp://tool/get_weather"}}
		text, _ := json.Marshal(terms) //nolint:errchkjson // texts
		result := words(string(text))
		result["structuredContent"], result["isError"] = terms, true
		return result
	}
	if payment == nil {
		return challenge("Payment required")
	}
	payload, err := x402.DecodePayload(base64.StdEncoding.EncodeToString(payment))
	if err != nil {
		return challenge(err.Error())
	}
	sum := sha256.Sum256(payload.JSON)
	kept := filepath.Join(s.folder, "answer-"+hex.EncodeToString(sum[:]))
	if text, err := os.ReadFile(kept); err == nil {
		return json.RawMessage(text)
	}
	receipt, err := s.till.Settle(context.Background(), payload, s.required)
	if err != nil || !receipt.Success {
		return challenge("not settled: " + receipt.ErrorReason)
	}
	result := words("sunny in " + city)
	result["_meta"] = map[string]any{"x402/payment-response": receipt}
	text, _ := json.Marshal(result) //nolint:errchkjson // texts
	if os.WriteFile(kept, text, 0o600) != nil {
		return challenge("the answer cannot be kept")
	}
	if os.Getenv(sellerHangs) != "" {
		fmt.Fprintln(os.Stderr, "settled")
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	return result
}
