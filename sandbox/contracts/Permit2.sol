// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

interface Spendable {
    function transferFrom(address from, address to, uint256 value) external returns (bool);
}

interface Judge {
    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4);
}

/// The sandbox's stand-in for Permit2: the part that moves tokens by signed messages with a witness. It accepts and
/// refuses what the real one does, with the same errors and the same event. Of a transfer it tells nothing, like the
/// real one: a bit of `nonceBitmap` is all that stays of it.
contract Permit2 {
    struct TokenPermissions {
        address token;
        uint256 amount;
    }

    struct PermitTransferFrom {
        TokenPermissions permitted;
        uint256 nonce;
        uint256 deadline;
    }

    struct SignatureTransferDetails {
        address to;
        uint256 requestedAmount;
    }

    error SignatureExpired(uint256 signatureDeadline);
    error InvalidAmount(uint256 maxAmount);
    error InvalidNonce();
    error InvalidSignatureLength();
    error InvalidSignature();
    error InvalidSigner();
    error InvalidContractSignature();

    event UnorderedNonceInvalidation(address indexed owner, uint256 word, uint256 mask);

    bytes32 private constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,uint256 chainId,address verifyingContract)");
    bytes32 private constant TOKEN_PERMISSIONS_TYPEHASH = keccak256("TokenPermissions(address token,uint256 amount)");
    string private constant PERMIT_TYPE =
        "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,";
    uint256 private constant LOW_BITS = (1 << 255) - 1;

    /// Owner, word, bits: a set bit is a spent nonce.
    mapping(address => mapping(uint256 => uint256)) public nonceBitmap;

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN_TYPEHASH, keccak256("Permit2"), block.chainid, address(this)));
    }

    function permitWitnessTransferFrom(
        PermitTransferFrom memory permit,
        SignatureTransferDetails calldata details,
        address owner,
        bytes32 witness,
        string calldata witnessType,
        bytes calldata signature
    ) external {
        if (block.timestamp > permit.deadline) revert SignatureExpired(permit.deadline);
        if (details.requestedAmount > permit.permitted.amount) revert InvalidAmount(permit.permitted.amount);
        _spend(owner, permit.nonce);
        _requireSigned(owner, _hash(permit, witness, witnessType), signature);
        require(
            Spendable(permit.permitted.token).transferFrom(owner, details.to, details.requestedAmount),
            "TRANSFER_FROM_FAILED"
        );
    }

    /// Gives nonces up. It takes spent ones as well.
    function invalidateUnorderedNonces(uint256 word, uint256 mask) external {
        nonceBitmap[msg.sender][word] |= mask;
        emit UnorderedNonceInvalidation(msg.sender, word, mask);
    }

    function _spend(address owner, uint256 nonce) private {
        uint256 bit = 1 << uint8(nonce);
        uint256 flipped = nonceBitmap[owner][nonce >> 8] ^= bit;
        if (flipped & bit == 0) revert InvalidNonce();
    }

    function _hash(PermitTransferFrom memory permit, bytes32 witness, string calldata witnessType)
        private
        view
        returns (bytes32)
    {
        bytes32 typeHash = keccak256(abi.encodePacked(PERMIT_TYPE, witnessType));
        bytes32 permitted = keccak256(abi.encode(TOKEN_PERMISSIONS_TYPEHASH, permit.permitted));
        bytes32 message =
            keccak256(abi.encode(typeHash, permitted, msg.sender, permit.nonce, permit.deadline, witness));
        return keccak256(abi.encodePacked("\x19\x01", DOMAIN_SEPARATOR(), message));
    }

    /// Takes an account's signature of 65 bytes, or of 64 (EIP-2098), or what the code of the owner takes (EIP-1271).
    function _requireSigned(address owner, bytes32 digest, bytes calldata signature) private view {
        if (owner.code.length != 0) {
            if (Judge(owner).isValidSignature(digest, signature) != Judge.isValidSignature.selector) {
                revert InvalidContractSignature();
            }
            return;
        }
        bytes32 r;
        bytes32 s;
        uint8 v;
        if (signature.length == 65) {
            (r, s) = abi.decode(signature, (bytes32, bytes32));
            v = uint8(signature[64]);
        } else if (signature.length == 64) {
            bytes32 vs;
            (r, vs) = abi.decode(signature, (bytes32, bytes32));
            s = bytes32(uint256(vs) & LOW_BITS);
            v = uint8(uint256(vs) >> 255) + 27;
        } else {
            revert InvalidSignatureLength();
        }
        address signer = ecrecover(digest, v, r, s);
        if (signer == address(0)) revert InvalidSignature();
        if (signer != owner) revert InvalidSigner();
    }
}
