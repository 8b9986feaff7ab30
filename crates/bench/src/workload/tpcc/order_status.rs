//! Order-Status (clause 2.6): a customer's balance, and the latest order with its lines.

use claret_types::Reply;

use super::calls;
use super::hand::{Hand, Who, in_the_middle};
use super::tables::Tables;
use crate::workload::{Call, Stage, array, bytes, ops};

const CUSTOMER: [&str; 5] = ["order", "balance", "first", "middle", "last"];

/// What the replies of a stage are.
#[derive(Clone, Copy)]
enum Step {
    Begin,
    Names,
    Customer,
}

pub(super) struct OrderStatus {
    place: (u32, u32),
    who: Who,
    step: Step,
}

impl OrderStatus {
    pub(super) fn draw(hand: &mut Hand) -> Self {
        OrderStatus { place: (hand.home, hand.district()), who: hand.who(), step: Step::Begin }
    }

    pub(super) fn restart(&mut self) {
        self.step = Step::Begin;
    }

    pub(super) fn stage(&mut self, tables: &Tables, replies: &[Reply], calls: &mut Vec<Call>) -> Stage {
        let ask = |number| Call::new(&tables.customer(self.place, number), calls::hmget(&CUSTOMER));
        match (self.step, &self.who) {
            (Step::Begin, Who::Named(last)) => {
                calls.push(Call::new(&tables.names(self.place), calls::hget(last.clone())));
                self.step = Step::Names;
                Stage::Read
            }
            (Step::Begin, who) => {
                calls.push(ask(who.number().expect("it has no name")));
                self.step = Step::Customer;
                Stage::Read
            }
            (Step::Names, _) => {
                calls.push(ask(in_the_middle(&replies[0])));
                self.step = Step::Customer;
                Stage::Read
            }
            (Step::Customer, _) => {
                let order = bytes(&array(&replies[0])[0]).map(|name| tables.order(self.place, name));
                calls.extend(order.map(|key| Call::new(&key, ops::hgetall())));
                Stage::Commit
            }
        }
    }
}
