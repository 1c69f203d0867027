package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"time"
)

// A fork shares the chain's first blocks and has other blocks after them.

// namedBlock matches the hash of a block in questions and answers of an RPC.
var namedBlock = regexp.MustCompile(`"(hash|parentHash|blockHash)":\s*"0x([0-9a-fA-F]{64})"`)

// otherHash converts the hash of a block of the chain to that of the fork, and back.
func otherHash(text []byte) []byte {
	return namedBlock.ReplaceAllFunc(text, func(found []byte) []byte {
		last := &found[len(found)-2]
		digit, _ := strconv.ParseUint(string(*last), 16, 8)
		*last = strconv.FormatUint(digit^1, 16)[0]
		return found
	})
}

// unfork replaces a block of the fork in a question with the chain's block.
func (p *RPC) unfork(ctx context.Context, params []json.RawMessage) []json.RawMessage {
	out := make([]json.RawMessage, len(params))
	for i, one := range params {
		out[i] = one
		if !bytes.Contains(one, []byte(`"blockHash"`)) {
			continue
		}
		var at struct{ BlockHash json.RawMessage }
		if json.Unmarshal(one, &at) != nil {
			continue
		}
		if found, _, err := p.forward(ctx, "eth_getBlockByHash", at.BlockHash, json.RawMessage("false")); err == nil && string(found) == "null" {
			out[i] = otherHash(bytes.Clone(one))
		}
	}
	return out
}

// fork renames the blocks from the given one on, and hides all logs.
func fork(method string, result json.RawMessage, from uint64) json.RawMessage {
	switch method {
	case "eth_getLogs":
		return json.RawMessage("[]")
	case "eth_getBlockByNumber":
		var block struct {
			Number json.RawMessage `json:"number"`
		}
		if json.Unmarshal(result, &block) != nil {
			return result
		}
		if n, err := number(block.Number); err != nil || n < from {
			return result
		}
		return otherHash(bytes.Clone(result))
	}
	return result
}

// authorizationState is the selector of authorizationState(address,bytes32).
const authorizationState = "e94a0102"

// unused answers that an authorization was not used.
func unused(c RPCCall, result json.RawMessage) json.RawMessage {
	if c.Method == "eth_call" && bytes.Contains(body(c.Params), []byte(authorizationState)) {
		return json.RawMessage(`"0x` + string(bytes.Repeat([]byte("0"), 64)) + `"`)
	}
	return result
}

// later moves the time of every block but the first.
func later(by time.Duration) func(RPCCall, json.RawMessage) json.RawMessage {
	return func(c RPCCall, result json.RawMessage) json.RawMessage {
		if c.Method != "eth_getBlockByNumber" || len(c.Params) == 0 || string(c.Params[0]) == `"0x0"` {
			return result
		}
		var block map[string]json.RawMessage
		if json.Unmarshal(result, &block) != nil || block == nil {
			return result
		}
		at, err := number(block["timestamp"])
		if err != nil {
			return result
		}
		block["timestamp"] = quantity(at + uint64(by/time.Second))
		text, err := json.Marshal(block)
		if err != nil {
			return result
		}
		return text
	}
}
