package proxy

import (
	"encoding/json"
	"net/http"
)

// headerSDK is sent by the SDKs that Stainless makes, such as those of OpenAI and Anthropic.
const headerSDK = "X-Stainless-Lang"

// sdkError has the form that model providers give their errors. Some SDKs show their users only the message
// of an error of this form.
type sdkError struct {
	Message string          `json:"message"`
	Type    string          `json:"type"`
	Code    json.RawMessage `json:"code,omitempty"` // the reason
}

// forSDK returns a body of ours as a client's SDK understands it: the text of "error" becomes an object.
// All other clients get the text.
func forSDK(h http.Header, body []byte) []byte {
	if h.Get(headerSDK) == "" {
		return body
	}
	var (
		members map[string]json.RawMessage
		text    string
	)
	if json.Unmarshal(body, &members) != nil || json.Unmarshal(members["error"], &text) != nil {
		return body
	}
	var err error
	if members["error"], err = json.Marshal(sdkError{text, "purser", members["reason"]}); err != nil {
		return body
	}
	out, err := json.Marshal(members)
	if err != nil {
		return body
	}
	return out
}
