package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
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

// unfork replaces blocks of the fork in a question with the chain's blocks.
func (p *RPC) unfork(ctx context.Context, params []json.RawMessage) {
	for i, one := range params {
		hash := blockHashOf(one)
		if hash == nil {
			continue
		}
		if found, _, err := p.forward(ctx, "eth_getBlockByHash", hash, json.RawMessage("false")); err == nil && string(found) == "null" {
			params[i] = otherHash(one)
		}
	}
}

// authorizationState is the selector of authorizationState(address,bytes32).
const authorizationState = "e94a0102"

// unused answers that an authorization was not used.
func unused(asked message, result json.RawMessage) json.RawMessage {
	if asked.Method == "eth_call" && bytes.Contains(asked.text(), []byte(authorizationState)) {
		return json.RawMessage(`"0x` + strings.Repeat("0", 64) + `"`)
	}
	return result
}

// alteredBlock changes a member of a block, if the block was asked for by this number or tag.
func alteredBlock(
	wanted func(name string) bool, member string, change func(json.RawMessage) json.RawMessage,
) func(message, json.RawMessage) json.RawMessage {
	return func(asked message, result json.RawMessage) json.RawMessage {
		var block map[string]json.RawMessage
		if asked.Method != "eth_getBlockByNumber" || !wanted(string(asked.Params[0])) || json.Unmarshal(result, &block) != nil || block == nil {
			return result
		}
		block[member] = change(block[member])
		return jsonAnswer(0, block).Body
	}
}

const genesis = `"0x0"`

// later moves the time of every block but the first.
func later(by time.Duration) func(message, json.RawMessage) json.RawMessage {
	return alteredBlock(func(name string) bool { return name != genesis }, "timestamp", func(at json.RawMessage) json.RawMessage {
		var seconds hexutil.Uint64
		_ = json.Unmarshal(at, &seconds) // an honest answer can be read
		return json.RawMessage(quoted(uint64(seconds) + uint64(by/time.Second)))
	})
}
