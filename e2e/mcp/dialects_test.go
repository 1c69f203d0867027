package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// dialect is a way to speak x402 inside MCP.
type dialect string

const (
	dialectX402       dialect = "x402"       // result.structuredContent, _meta["x402/payment"] is an object
	dialectText       dialect = "text"       // the same, but the terms are in content[0].text alone
	dialectExtension  dialect = "extension"  // resultType is payment_required
	dialectCloudflare dialect = "cloudflare" // result._meta["x402/error"], _meta["x402/payment"] is base64
	dialectVercel     dialect = "vercel"     // version 1, _meta["x402.payment"] is base64
	dialectError      dialect = "error"      // the terms are in error.data
	dialectHTTP       dialect = "http"       // HTTP 402, as without MCP
)

// message is the part of a JSON-RPC message that a payer looks at.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result *struct {
		IsError           bool                       `json:"isError"`
		ResultType        string                     `json:"resultType"`
		PaymentRequired   json.RawMessage            `json:"paymentRequired"`
		StructuredContent json.RawMessage            `json:"structuredContent"`
		Meta              map[string]json.RawMessage `json:"_meta"`
		Content           []struct{ Text string }    `json:"content"`
	} `json:"result"`
	Error *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// terms finds the terms of a challenge, and how the payment must go.
func (m message) terms() (terms json.RawMessage, by dialect, found bool) {
	if m.Error != nil {
		return m.Error.Data, dialectError, areTerms(m.Error.Data)
	}
	r := m.Result
	switch {
	case r == nil:
	case r.ResultType == "payment_required":
		return r.PaymentRequired, dialectExtension, areTerms(r.PaymentRequired)
	case !r.IsError:
	case areTerms(r.Meta["x402/error"]):
		return r.Meta["x402/error"], dialectCloudflare, true
	case areTerms(r.StructuredContent):
		if version(r.StructuredContent) == 1 {
			return r.StructuredContent, dialectVercel, true
		}
		return r.StructuredContent, dialectX402, true
	case len(r.Content) > 0 && areTerms(json.RawMessage(r.Content[0].Text)):
		return json.RawMessage(r.Content[0].Text), dialectText, true
	}
	return nil, "", false
}

func version(terms json.RawMessage) int {
	var v struct{ X402Version int }
	_ = json.Unmarshal(terms, &v)
	return v.X402Version
}

func areTerms(text json.RawMessage) bool {
	var v struct {
		X402Version int
		Accepts     []json.RawMessage
	}
	return json.Unmarshal(text, &v) == nil && v.X402Version > 0 && len(v.Accepts) > 0
}

// errNoAnswer says that a body ended before the answer to a request.
var errNoAnswer = errors.New("no answer to the request")

// answerTo reads a body up to the answer to a request, and returns what it has read beside it.
func answerTo(res *http.Response, id json.RawMessage) (read []byte, m message, err error) {
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if kind != "text/event-stream" {
		if read, err = io.ReadAll(res.Body); err != nil {
			return read, m, err
		}
		if json.Unmarshal(read, &m) != nil || !bytes.Equal(m.ID, id) {
			return read, m, errNoAnswer
		}
		return read, m, nil
	}
	var data strings.Builder
	for lines := bufio.NewReader(res.Body); ; {
		line, err := lines.ReadString('\n')
		read = append(read, line...)
		if err != nil {
			return read, m, fmt.Errorf("%w: %w", errNoAnswer, err)
		}
		switch line = strings.TrimRight(line, "\r\n"); {
		case strings.HasPrefix(line, "data:"):
			data.WriteString(strings.TrimPrefix(line[5:], " "))
		case line == "":
			m = message{}
			if json.Unmarshal([]byte(data.String()), &m) == nil && bytes.Equal(m.ID, id) && m.Method == "" {
				return read, m, nil
			}
			data.Reset()
		}
	}
}
