//! A balance to withdraw from. With escrow it is right; without, each withdrawal is checked against
//! the state and one other, and three overdraw together (P4).

use claret_types::{
    Access, Arguments, Bytes, Claims, DataType, Draw, Examples, Execution, Few, Method, Mode, Modes, OpError,
    Reply, Room, Scope, Unique, arguments, few, modes,
};

/// `ESCROW`: the draws of all that is pending are summed.
pub(crate) struct Account<const ESCROW: bool>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AccountOp {
    Withdraw(u64),
    Balance,
}

const TAKE: Mode = Mode(0);
const TAKE_ALONE: Mode = Mode(1);
const LOOK: Mode = Mode(2);

impl<const ESCROW: bool> Account<ESCROW> {
    fn draw(amount: u64) -> Draw {
        Draw { down: if ESCROW { amount } else { 0 }, up: 0 }
    }
}

impl<const ESCROW: bool> DataType for Account<ESCROW> {
    const NAME: &'static str = "account";
    const SUMMARY: &'static str = "a balance to withdraw from";
    const NATIVE: &'static str = "string";
    const METHODS: &'static [Method] = &[
        Method {
            name: "WITHDRAW",
            arguments: "amount",
            summary: "takes the amount; 1 if it was there, else 0",
            access: Access::Write,
            returns: true,
            complexity: "O(1)",
        },
        Method {
            name: "BALANCE",
            arguments: "",
            summary: "the balance",
            access: Access::Read,
            returns: true,
            complexity: "O(1)",
        },
    ];
    const MODES: Modes = Modes {
        names: &["take", "take-alone", "look"],
        conflicts: &[
            modes(&[TAKE_ALONE, LOOK]),
            modes(&[TAKE, TAKE_ALONE, LOOK]),
            modes(&[TAKE, TAKE_ALONE]),
        ],
        removing: modes(&[TAKE, TAKE_ALONE]),
        clearing: 0,
    };

    type State = u64;
    type Op = AccountOp;
    type Effect = i64;

    fn parse(method: &str, given: Arguments<'_>) -> Result<AccountOp, OpError> {
        match (method, given) {
            (name, [amount]) if name == Self::METHODS[0].name => {
                Ok(AccountOp::Withdraw(arguments::unsigned(amount)?))
            }
            (name, []) if name == Self::METHODS[1].name => Ok(AccountOp::Balance),
            _ => Err(OpError::misuse(Self::METHODS, method)),
        }
    }

    fn method(op: &AccountOp) -> &'static Method {
        match op {
            AccountOp::Withdraw(_) => &Self::METHODS[0],
            AccountOp::Balance => &Self::METHODS[1],
        }
    }

    fn arguments(op: &AccountOp) -> Few<Bytes> {
        match op {
            AccountOp::Withdraw(amount) => few([arguments::of_unsigned(*amount)]),
            AccountOp::Balance => Few::new(),
        }
    }

    fn is_absent(state: &u64) -> bool {
        *state == 0
    }

    fn footprint(op: &AccountOp) -> Claims {
        match op {
            AccountOp::Withdraw(amount) => {
                let claims = Claims::record(TAKE).and(Scope::Record, TAKE_ALONE).and(Scope::Record, LOOK);
                claims.drawing(Self::draw(*amount))
            }
            AccountOp::Balance => Claims::record(LOOK),
        }
    }

    fn execute(state: &u64, op: &AccountOp, _: Unique) -> Result<Execution<i64>, OpError> {
        let execution = match op {
            AccountOp::Withdraw(amount) if amount > state => {
                Execution::read(Reply::Int(0), Claims::record(LOOK))
            }
            AccountOp::Withdraw(amount) => {
                let pair_fits = ESCROW || 2 * amount <= *state;
                let mode = if pair_fits { TAKE } else { TAKE_ALONE };
                let claims = Claims::record(mode).drawing(Self::draw(*amount));
                Execution::returning(Reply::Int(1), -(*amount as i64), claims)
            }
            AccountOp::Balance => Execution::read(Reply::Int(*state as i64), Claims::record(LOOK)),
        };
        Ok(execution)
    }

    fn room(state: &u64) -> Room {
        Room { down: *state, up: u64::MAX }
    }

    fn apply(state: &mut u64, effect: i64) -> i64 {
        *state = state.saturating_add_signed(effect);
        -effect
    }
}

impl<const ESCROW: bool> Examples for Account<ESCROW> {
    fn states() -> Vec<u64> {
        vec![0, 1, 5]
    }

    fn operations() -> Vec<AccountOp> {
        vec![AccountOp::Withdraw(2), AccountOp::Balance]
    }
}
